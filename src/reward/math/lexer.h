// Owns the characters of an answer: LaTeX, Unicode and plain text as one sequence of tokens. Knows nothing of grammar.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qrl::reward::math {

inline constexpr std::size_t kMaxAnswer_bytes = 4096;  ///< longer answers and golds are not read
inline constexpr std::size_t kMaxTokens = 2048;

enum class TokenType : unsigned char {
  end,
  number,    ///< text: digits with at most one '.', repeating ones in (), an exponent after 'e'; code: kInWords or 0
  symbol,    ///< a variable; text: its name ("x", "\theta", "\mathbb{R}")
  constant,  ///< text: "pi", "e", "i", "infinity", "empty"
  function,  ///< text: name without backslash
  word,      ///< \text{…} (code t) or a plain word; text: as written
  relation,  ///< code: = < > l(≤) g(≥) n(≠) a(≈) c(≡) e(∈) s(⊂ and others) t(→)
  op,  ///< text: of / its stroke where one is written; code: + - * / ^ _ ! ' P(±) M(∓) % d(degree) : m(mod) p(mod, of
       ///< all before it) U(∪) N(∩) D(∖)
  open,       ///< code: ( [ { S(\{) F(floor) C(ceiling)
  close,      ///< code: ) ] } S F C
  bar,        ///< | or \mid
  separator,  ///< code: , ; or & (and, or)
  fraction,   ///< code: / or b(binomial)
  root,
  begin,  ///< of an environment; text: its name
  finish,
  cell,     ///< & in an environment
  newline,  ///< \\ in an environment
  dots,
};

inline constexpr char kInWords = 'w';  ///< code of a number that was written in words

struct Token {
  TokenType type = TokenType::end;
  char code = 0;
  bool space = false;    ///< white space before it
  bool newline = false;  ///< a line break or \quad in that white space
  std::string_view text;
};

/// ∪, ∩, ∖.
inline bool is_set_operator(const Token& token) noexcept {
  return token.type == TokenType::op && (token.code == 'U' || token.code == 'N' || token.code == 'D');
}

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

Tokens tokenize(std::string_view text, Comma comma);

}  // namespace qrl::reward::math
