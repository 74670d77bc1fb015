// Owns the words of a Jinja text, between lexer.cpp and template.cpp.
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

/// All of a template, with the white space control of transformers (trim_blocks, lstrip_blocks) done; `end` comes last.
/// Throws Unsupported.
std::vector<Token> words_of(const std::string& text);

}  // namespace qrl::data::jinja
