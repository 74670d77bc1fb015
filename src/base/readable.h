// Owns how text in any language is shown to a person.
#pragma once

#include <string>
#include <string_view>

namespace qrl::base {

/// Quotes a text in a form that YAML and JSON read back, at most `max_bytes` of it in whole characters. \", \\, \n and
/// \t are escaped. Control characters, and characters that reorder or hide text on a terminal, become \xNN or \uNNNN.
/// Bytes that are not UTF-8 become \xNN.
std::string readable(std::string_view text, std::size_t max_bytes = 60);

/// Escapes a text for a terminal: control characters except newline and tab, characters that reorder or hide text, and
/// bytes that are not UTF-8.
std::string printable(std::string_view text);

/// Prints like printf, with the formatted text passed through `printable`.
[[gnu::format(printf, 1, 2)]] void print(const char* pattern, ...);

}  // namespace qrl::base
