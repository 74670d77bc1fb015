// Owns intervals whose brackets are turned outwards where they are open: ]2, 5[, as ISO 80000-2 has them. Knows nothing
// of characters.
#pragma once

#include <vector>

#include "reward/math/lexer.h"

namespace qrl::reward::math {

/// Makes round brackets of square ones that are turned outwards: of one that closes where something begins, and of one
/// that opens behind the last member of a bracket with several, where nothing can begin.
void make_turned_brackets_round(std::vector<Token>& tokens);

}  // namespace qrl::reward::math
