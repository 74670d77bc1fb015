#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reward/math/vocabulary.h"

namespace qrl::reward::math {

inline constexpr std::size_t kMaxAnswer_bytes = 4096;  ///< longer answers and gold answers are not parsed
inline constexpr std::size_t kMaxTokens = 2048;

struct Token {
  TokenType type = TokenType::end;
  char code = 0;
  bool space = false;
  bool newline = false;    ///< follows a line break or \quad
  bool thousands = false;  ///< has commas between thousands
  std::string_view text;
};

enum class Comma : unsigned char {
  thousands,  ///< "1,234" is a number; other commas separate
  separator,  ///< always separates
  decimal,    ///< "2,74" is 2.74
};

struct Tokens {
  std::vector<char> source;      ///< characters that the tokens' texts refer to; a move keeps their address
  std::vector<Token> tokens;     ///< ends with a token of type end
  bool ambiguous_comma = false;  ///< if set, another meaning of commas gives other tokens
  std::string_view currency;     ///< unit of the currency signs; "several" if they differ
  std::string fault;             ///< error, such as an unknown command; empty on success
};

Tokens tokenize(std::string_view text, Comma comma, const Vocabulary& vocabulary);

// ---- spelling.cpp

/// Rewrites compatibility characters as LaTeX or ASCII: x² as x^{2}, ½ as \frac{1}{2}, Ⅳ and ④ as 4, √ as \sqrt, ≤ as
/// \le. Normalizes other characters by NFKC (Unicode). Keeps non-ASCII letters and invalid UTF-8.
std::string normalized(std::string_view text);

struct WrittenNumber {
  std::string digits;   ///< at most one '.', repeating digits in (), an exponent after 'e'; number words may give "2/3"
  std::size_t end = 0;  ///< offset in the text after the number
  bool ambiguous_comma = false, thousands = false;
};
WrittenNumber scan_number(std::string_view text, std::size_t begin, Comma comma, const Vocabulary& vocabulary);
/// Reads a number in words: "twenty-five", "two thirds", "two and a half".
std::optional<WrittenNumber> numeral_at(std::string_view text, std::size_t begin, const Vocabulary& vocabulary);

}  // namespace qrl::reward::math
