// Owns strict JSON parsing. For .cpp files only: it includes all of nlohmann/json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace qrl::state {

inline constexpr int kMaxJsonDepth = 32;

/// Parses `text`, with members sorted by key. Throws an input error with `where` and, for a syntax error, the byte's
/// index. Also rejects a byte-order mark, invalid UTF-8, lone surrogate escapes, NUL bytes, duplicate keys, numbers
/// beyond a double, NaN and Infinity, and more than `max_depth` levels.
nlohmann::json parse_json(std::string_view text, const std::string& where, int max_depth = kMaxJsonDepth);

/// Parses like parse_json, with members in the text's order.
nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& where,
                                          int max_depth = kMaxJsonDepth);

/// Adds a member whose name is new to an object, and returns its value. nlohmann's ordered_json compares a name with
/// all earlier ones, in quadratic time for many members; add_member does not.
nlohmann::ordered_json& add_member(nlohmann::ordered_json& object, std::string name,
                                   nlohmann::ordered_json value = nullptr);

nlohmann::json json_or_null(std::string_view text);
nlohmann::ordered_json ordered_json_or_null(std::string_view text);

/// Returns a value, quoted, for a message. A string is not quoted twice.
std::string shown_value(const nlohmann::json& value);

}  // namespace qrl::state
