// Owns numbers written in words: "forty-two", "one hundred and five", "two thirds". Knows nothing of digits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace qrl::reward::math {

struct Numeral {
  std::int64_t value = 0;        ///< below 10¹²; of a fraction what stands above its stroke
  std::int64_t denominator = 1;  ///< up to 1000
  std::size_t size = 0;          ///< how many bytes of the text it takes: more than its digits would
};

/// The number that a text begins with in English words, as long as they make one: also "two thirds" and "two and a
/// half", and "half" or "a quarter" where nothing stands behind them. Not "one of" something.
std::optional<Numeral> numeral_at(std::string_view text) noexcept;

/// "minus 12", "negative twelve".
bool begins_with_minus(std::string_view text) noexcept;

/// "(five)".
bool is_bracketed_numeral(std::string_view text) noexcept;

}  // namespace qrl::reward::math
