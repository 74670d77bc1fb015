// Owns the exclamation mark behind a number: "The answer is 18!". Knows nothing of whether the answer is right.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace qrl::reward::math {

/// The number of an extracted answer such as "18!" whose sign may be an exclamation: in `response` it ends a line or
/// the text, words or a colon stand before it, no formula's delimiters around it, and nothing else there speaks of
/// factorials. Nothing where it is a factorial for sure. Looks at the last such place only.
std::optional<std::string> exclaimed_number(std::string_view response, std::string_view answer);

}  // namespace qrl::reward::math
