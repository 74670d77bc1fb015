// Owns the tokens of an answer: LaTeX and plain text, normalized (normalize.h), as one sequence. Knows nothing of
// grammar.
#pragma once

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
  bool space = false;       ///< white space before it
  bool newline = false;     ///< a line break or \quad in that white space
  std::uint8_t groups = 0;  ///< of a number with commas between thousands alone: digits of its first group
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
  std::string_view
      currency;       ///< the unit of its signs of money, "several" where they differ, empty where there is none
  std::string fault;  ///< why it could not be read, such as a command that is not known; empty if it was
};

Tokens tokenize(std::string_view text, Comma comma, const Vocabulary& vocabulary);

}  // namespace qrl::reward::math
