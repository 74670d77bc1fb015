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

/// Makes "≈" of "or approximately" before a number.
void make_hedges_relations(std::vector<Token>& tokens);

/// Makes binomials of scripts before and behind a letter: {}_{10}C_3, ^{10}C_3; {}_5P_2 is 5!/3!.
void make_scripts_binomials(std::vector<Token>& tokens);

/// Makes repeating decimals of those with dots that show their period, of one digit three times, of two, three or six
/// twice: 0.1666..., 0.2727\ldots. Dots behind other decimals and at the end say nothing. `source`: what the tokens'
/// texts are views of.
void make_dotted_decimals_repeat(std::vector<Token>& tokens, std::vector<char>& source);

/// Separates equations of letters that a line break or \quad stands between: x = 2 \quad y = 3.
void separate_equations(std::vector<Token>& tokens);

}  // namespace qrl::reward::math
