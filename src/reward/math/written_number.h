// Owns numbers in digits: thousands, decimals, repeating digits, exponents. Knows nothing of what stands around them.
#pragma once

#include <string_view>
#include <vector>

#include "reward/math/lexer.h"

namespace qrl::reward::math {

struct WrittenNumber {
  std::size_t end = 0;           ///< behind it in the source
  std::size_t size = 0;          ///< of its text, which begins where the number does
  bool ambiguous_comma = false;  ///< reading commas otherwise would give another one
  std::size_t first_group = 0;  ///< the digits before its first comma where commas alone separate its thousands; else 0
};

/// The end of the digits that begin at `begin`, with a decimal point between two of them.
std::size_t end_of_decimal(std::string_view text, std::size_t begin) noexcept;

/// The number at `begin`, a digit or a point before one. Its text (TokenType::number) replaces it in the source, where
/// it is never longer: separators of thousands leave a gap behind it.
WrittenNumber scan_number(std::vector<char>& source, std::size_t begin, Comma comma);

}  // namespace qrl::reward::math
