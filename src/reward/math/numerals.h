// Owns numbers as they are written: in digits, with thousands, places and exponents, and in English words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "reward/math/vocabulary.h"

namespace qrl::reward::math {

struct WrittenNumber {
  std::string digits;   ///< with at most one '.', repeating ones in (), an exponent after 'e'
  std::size_t end = 0;  ///< behind it in the text
  bool ambiguous_comma = false;
  std::size_t first_group = 0;  ///< digits before the first comma where commas alone separate thousands
};
/// The number whose first digit or point is text[begin]; `comma`: see lexer.h's Comma, 0 to 2.
WrittenNumber scan_number(std::string_view text, std::size_t begin, int comma, const Vocabulary& vocabulary);

struct Numeral {
  std::int64_t value = 0, denominator = 1;
  std::size_t size = 0;  ///< of the text read
};
/// The number that a text begins with in words: "twenty-five", "two thirds", "two and a half".
std::optional<Numeral> numeral_at(std::string_view text, const Vocabulary& vocabulary);

}  // namespace qrl::reward::math
