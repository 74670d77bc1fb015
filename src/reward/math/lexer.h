// Owns the tokens of an answer: LaTeX and plain text as one sequence, and how characters and numbers are spelled in
// them. Knows nothing of grammar.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reward/math/vocabulary.h"

namespace qrl::reward::math {

inline constexpr std::size_t kMaxAnswer_bytes = 4096;  ///< longer answers and golds are not read
inline constexpr std::size_t kMaxTokens = 2048;

struct Token {
  TokenType type = TokenType::end;
  char code = 0;
  bool space = false;      ///< white space before it
  bool newline = false;    ///< a line break or \quad in that white space
  bool thousands = false;  ///< a number with commas between thousands
  std::string_view text;
};

/// What a comma between digits is.
enum class Comma : unsigned char {
  thousands,  ///< "1,234" is a number; others separate
  separator,  ///< it separates, always
  decimal,    ///< "2,74" is 2.74
};

struct Tokens {
  std::vector<char> source;   ///< what the tokens' texts are views of; its bytes stay where they are when it is moved
  std::vector<Token> tokens;  ///< ends with one of type end
  bool ambiguous_comma = false;  ///< reading commas otherwise would give other tokens
  std::string_view currency;     ///< the unit of its signs of money, "several" where they differ; empty: there is none
  std::string fault;             ///< why it could not be read, such as a command that is not known; empty if it was
};

Tokens tokenize(std::string_view text, Comma comma, const Vocabulary& vocabulary);

// ---- spelling.cpp

/// What a character means by its form is written out in LaTeX: x² as x^{2}, a₁ as a_{1}, ½ as \frac{1}{2}, Ⅳ and ④ as
/// 4, √ as \sqrt, ≤ as \le. Others are what NFKC (Unicode) makes of them; letters beyond ASCII stay. Bytes that are no
/// UTF-8 stay as they are.
std::string normalized(std::string_view text);

struct WrittenNumber {
  std::string digits;   ///< with at most one '.', repeating ones in (), an exponent after 'e'; of words perhaps "2/3"
  std::size_t end = 0;  ///< behind it in the text
  bool ambiguous_comma = false, thousands = false;
};
/// The number whose first digit or point is text[begin].
WrittenNumber scan_number(std::string_view text, std::size_t begin, Comma comma, const Vocabulary& vocabulary);
/// The number that begins there in words: "twenty-five", "two thirds", "two and a half".
std::optional<WrittenNumber> numeral_at(std::string_view text, std::size_t begin, const Vocabulary& vocabulary);

}  // namespace qrl::reward::math
