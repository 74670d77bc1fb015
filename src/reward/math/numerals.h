// Owns numbers written in words: "forty-two", "one hundred and five". Knows nothing of digits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace qrl::reward::math {

struct Numeral {
  std::int64_t value = 0;  ///< below 10¹²
  std::size_t size = 0;    ///< how many bytes of the text it takes
};

/// The number that a text begins with in English words, as long as they make one; not "one of" something, nor "two
/// thirds".
std::optional<Numeral> numeral_at(std::string_view text) noexcept;

}  // namespace qrl::reward::math
