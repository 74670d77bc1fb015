// Owns strict reading of untrusted JSON for this folder. Knows nothing of what the JSON means.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace qrl::data {

inline constexpr int kMaxJsonDepth = 64;  ///< arrays and objects open at one time

/// One JSON value of RFC 8259 and nothing after it. Invalid UTF-8, raw NUL bytes, lone surrogates, duplicate keys, a
/// byte order mark, NaN, Infinity, comments, numbers beyond a double and nesting beyond kMaxJsonDepth are input errors
/// of `where`.
nlohmann::json parse_strict_json(std::string_view text, const std::string& where);

}  // namespace qrl::data
