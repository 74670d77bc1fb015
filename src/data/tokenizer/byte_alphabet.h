#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace qrl::data {

/// Returns GPT-2's spelling of a byte, in UTF-8 (bytes_to_unicode, Radford et al., 2019). Printable Latin-1 bytes are
/// themselves; the other 68 are U+0100, U+0101, … in order.
const std::string& byte_spelling(unsigned char byte);

/// Returns a spelling's bytes; nothing for a character outside of this alphabet.
std::optional<std::string> bytes_of_spelling(std::string_view spelling);

}  // namespace qrl::data
