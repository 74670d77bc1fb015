// Owns what LaTeX's environments for layout say: which of them hold equations in rows, and which & between the cells of
// those only align them. Knows nothing of characters or grammar.
#pragma once

#include <vector>

#include "reward/math/lexer.h"

namespace qrl::reward::math {

/// Makes `cases` of the environments that hold formulas in rows (aligned, align, alignat, split, gather, eqnarray and
/// their kin; array where an & stands beside a relation or behind a brace that nothing closes), without the & and the
/// line breaks that only lay a formula out, and without the brace before them; drops `equation` around its content.
/// Linear in the number of tokens.
void make_rows_cases(std::vector<Token>& tokens);

}  // namespace qrl::reward::math
