// The forms that a Jinja text goes through, between lexer.cpp, parser.cpp and evaluate.cpp. Included by jinja.h alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace qrl::data::jinja {

enum class TokenKind : std::uint8_t { text, name, string, number, sign, end };

/// A piece of the template: text outside of tags, or a word of a tag. Tags begin with the signs "{{" and "{%".
struct Token {
  TokenKind kind = TokenKind::end;
  std::string text = {};
};

/// Longest tag. With the parser's bound on nesting it bounds how deep the parsed form is, and so every recursion on it.
inline constexpr std::size_t kMaxTagTokens = 256;

/// All of a template, with the white space control of transformers (trim_blocks, lstrip_blocks) done; `end` comes last.
/// Throws Unsupported.
std::vector<Token> words_of(const std::string& text);

enum class NodeKind : std::uint8_t {
  // Expressions
  literal,      ///< text
  number,       ///< number
  boolean,      ///< number: 0 or 1
  none,         //
  name,         ///< text
  attribute,    ///< children: base; text: the name
  item,         ///< children: base, index
  slice,        ///< children: base, from, to, step; absent ones are `none` with text ":"
  call,         ///< children: what is called, arguments; a named argument is a `keyword`
  keyword,      ///< text; children: value
  filter,       ///< text; children: value, arguments
  test,         ///< text; children: value, arguments
  negation,     ///< not; children: value
  minus,        ///< children: value
  binary,       ///< text: the operator; children: left, right
  conditional,  ///< children: condition, then, else or nothing
  list,         ///< children
  unsupported,  ///< text: what it is; an error when it is reached, as an expression or a statement
  // Statements
  text,    ///< text, as it is written
  output,  ///< children: expression
  set,     ///< text: variable, attribute: member or ""; children: value
  loop,    ///< text: variable; children: sequence, body
  branch,  ///< children: condition, body, condition, body, …; at the end perhaps a body alone
  block    ///< children: statements
};

struct Node {
  NodeKind kind = NodeKind::none;
  std::string text = {};
  std::string attribute = {};
  std::int64_t number = 0;
  std::vector<Node> children = {};
};

/// The statements of a text. Throws Unsupported.
Node parse_statements(const std::string& text);

}  // namespace qrl::data::jinja
