// Owns the spelling of bytes in the vocabularies of byte-level tokenizers. Knows nothing of tokens.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace qrl::data {

/// A byte as GPT-2's vocabulary spells it, so that vocabularies are printable text (bytes_to_unicode, Radford et al.,
/// 2019): printable Latin-1 bytes stand for themselves, the other 68 are U+0100, U+0101, … in their order. UTF-8.
const std::string& byte_spelling(unsigned char byte);

/// The bytes that a token's spelling stands for; nothing when it holds another character.
std::optional<std::string> bytes_of_spelling(std::string_view spelling);

}  // namespace qrl::data
