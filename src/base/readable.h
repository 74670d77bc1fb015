#pragma once

#include <string>
#include <string_view>

namespace qrl::base {

/// Quotes at most `max_bytes` of a text, in whole characters, so that YAML and JSON read it back. \", \\, \n and \t are
/// escaped. Control characters, those that reorder or hide text, and bytes that are not UTF-8 become \xNN or \uNNNN.
std::string readable(std::string_view text, std::size_t max_bytes = 60);

/// Escapes text for a terminal: control characters except newline and tab, characters that reorder or hide text, and
/// bytes that are not UTF-8.
std::string printable(std::string_view text);

/// Prints like printf, through `printable`.
[[gnu::format(printf, 1, 2)]] void print(const char* pattern, ...);

}  // namespace qrl::base
