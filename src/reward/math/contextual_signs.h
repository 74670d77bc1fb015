// Owns signs that say something else by where they stand: brackets turned outwards, ]2, 5[, as ISO 80000-2 has open
// intervals, braces of sets without a backslash, and letters and words for operators. Knows nothing of characters.
#pragma once

#include <vector>

#include "reward/math/lexer.h"

namespace qrl::reward::math {

/// Makes round brackets of square ones that are turned outwards: of one that closes where something begins, and of one
/// that opens behind the last member of a bracket with several, where nothing can begin.
void make_contextual_signs_round(std::vector<Token>& tokens);

/// Makes those of a set of plain braces around "x | …" or "x ∈ S : …" with a relation behind that: LaTeX shows none.
void make_builder_braces_shown(std::vector<Token>& tokens) noexcept;

/// Drops what repeats a number in words or digits: (five) of "5 (five)", (5) of "five (5)". False where it is another
/// number.
bool drop_numbers_repeated(std::vector<Token>& tokens);

/// Makes a ratio of an answer that is "2 to 3" or "1 to 2 to 3" as a whole.
void make_words_ratios(std::vector<Token>& tokens) noexcept;

/// Makes operators of letters that stand for them: of U between two intervals, and of x between a number and a power of
/// ten (6.02 x 10^23).
void make_letters_operators(std::vector<Token>& tokens) noexcept;

}  // namespace qrl::reward::math
