// Owns the characters of an answer: Unicode to LaTeX in ASCII. Knows nothing of what LaTeX means.
#pragma once

#include <string>
#include <string_view>

namespace qrl::reward::math {

/// What a character means by its form is written out: x² as x^{2}, a₁ as a_{1}, ½ as \frac{1}{2}, Ⅳ and ④ as 4, √ as
/// \sqrt, ≤ as \le. Others are what NFKC (Unicode) makes of them; letters beyond ASCII stay. Bytes that are no UTF-8
/// stay as they are.
std::string normalized(std::string_view text);

}  // namespace qrl::reward::math
