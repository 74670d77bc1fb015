// Owns the characters beyond ASCII that answers are written in, as ASCII or LaTeX. Knows nothing of what they mean.
#pragma once

#include <string>
#include <string_view>

namespace qrl::reward::math {

/// The text with characters such as ×, ≤, π, ² and ½ in their ASCII or LaTeX spelling, and the number behind √ or ∛ in
/// braces; those without a spelling stay.
std::string spelled_in_ascii(std::string_view text);

}  // namespace qrl::reward::math
