// Owns the characters beyond ASCII that answers are written in, as ASCII or LaTeX. Knows nothing of what they mean.
#pragma once

#include <string>
#include <string_view>

namespace qrl::reward::math {

/// The text with characters such as ×, ≤, π, ², ½ and（８５）in their ASCII or LaTeX spelling, and the number behind √
/// or ∛ in braces; those without a spelling stay.
std::string spelled_in_ascii(std::string_view text);

/// The text with digits of full width, ０ to ９, as ASCII's.
std::string with_ascii_digits(std::string_view text);

}  // namespace qrl::reward::math
