// Owns how a text of any language is shown to a person.
#pragma once

#include <string>
#include <string_view>

namespace qrl::base {

/// Shows a text in quotation marks as YAML and JSON read it back: letters of all languages as they are, \", \\, \n and
/// \t escaped, and \xNN or \uNNNN in place of control characters and of those that turn or hide text on a terminal.
/// At most `max_bytes` of the text are shown, in whole characters. Bytes that are not UTF-8 become \xNN.
std::string readable(std::string_view text, std::size_t max_bytes = 60);

/// Returns the text for a terminal. Line breaks stay; other control characters, and characters that turn or hide text,
/// become \xNN or \uNNNN. Bytes that are not UTF-8 become \xNN.
std::string printable(std::string_view text);

/// Prints as printf does, with the formatted text passed through `printable`.
[[gnu::format(printf, 1, 2)]] void print(const char* pattern, ...);

}  // namespace qrl::base
