// Owns signs that say something else by where they stand: brackets turned outwards, ]2, 5[, as ISO 80000-2 has open
// intervals, and letters for operators. Knows nothing of characters.
#pragma once

#include <vector>

#include "reward/math/lexer.h"

namespace qrl::reward::math {

/// Makes round brackets of square ones that are turned outwards: of one that closes where something begins, and of one
/// that opens behind the last member of a bracket with several, where nothing can begin.
void make_contextual_signs_round(std::vector<Token>& tokens);

/// Makes operators of letters that stand for them: of U between two intervals, and of x between a number and a power of
/// ten (6.02 x 10^23).
void make_letters_operators(std::vector<Token>& tokens) noexcept;

}  // namespace qrl::reward::math
