// Owns strict JSON: what JSON parsers are free to shrug at is refused here. Knows nothing of what the text means.
// Included by .cpp files only: it brings the whole of nlohmann/json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace qrl::state {

/// Levels of nesting that no file of ours needs.
inline constexpr int kMaxJsonDepth = 32;

/// Parses `text`; input errors name `where` and the byte. Refused beside plain syntax errors: a byte-order mark,
/// invalid UTF-8, lone surrogate escapes, a NUL byte, a key twice in one object, numbers beyond a double, NaN and
/// Infinity, comments, anything after the value, more than `max_depth` levels. Object members come sorted by key.
nlohmann::json parse_json(std::string_view text, const std::string& where, int max_depth = kMaxJsonDepth);

/// Parses as parse_json does, and keeps object members in the order of the text. Compares each member with all before
/// it: for short texts.
nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& where,
                                          int max_depth = kMaxJsonDepth);

/// Parse as the two functions above do, and return null for a text that those refuse.
nlohmann::json json_or_null(std::string_view text);
nlohmann::ordered_json ordered_json_or_null(std::string_view text);

/// A value for a message, a text without the quotes of JSON inside our own.
std::string shown_value(const nlohmann::json& value);

}  // namespace qrl::state
