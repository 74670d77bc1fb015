#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace qrl::data::jinja {

enum class TokenKind : std::uint8_t { text, name, string, number, sign, end };

/// Text outside tags, or one token of a tag. A tag begins with the sign "{{" or "{%".
struct Token {
  TokenKind kind = TokenKind::end;
  std::string text = {};
};

/// Splits a template into tokens, of which the last is `end`. Controls white space like transformers (trim_blocks,
/// lstrip_blocks). Throws Unsupported.
std::vector<Token> words_of(const std::string& text);

}  // namespace qrl::data::jinja
