// Owns strict JSON parsing. Only .cpp files include this header, because it includes all of nlohmann/json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace qrl::state {

/// The nesting limit; no file of this project needs more.
inline constexpr int kMaxJsonDepth = 32;

/// Parses `text` and returns object members sorted by key. Throws an input error that names `where` and the byte.
/// Beyond syntax errors it rejects a byte-order mark, invalid UTF-8, lone surrogate escapes, a NUL byte, duplicate keys
/// and comments. It also rejects numbers beyond a double, NaN and Infinity, text after the value, and more than
/// `max_depth` levels.
nlohmann::json parse_json(std::string_view text, const std::string& where, int max_depth = kMaxJsonDepth);

/// Parses like parse_json, but keeps object members in the order of the text. Each member is compared with all earlier
/// members, so use it for short texts.
nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& where,
                                          int max_depth = kMaxJsonDepth);

/// Parse like the two functions above, but return null for a text that they reject.
nlohmann::json json_or_null(std::string_view text);
nlohmann::ordered_json ordered_json_or_null(std::string_view text);

/// Returns a value for a message; a string is quoted once.
std::string shown_value(const nlohmann::json& value);

}  // namespace qrl::state
