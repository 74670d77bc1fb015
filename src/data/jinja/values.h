// What values of Jinja are and how operators, methods and filters work on them, as in Python. Included by evaluate.cpp
// and values.cpp alone.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace qrl::data::jinja {

using Json = nlohmann::ordered_json;
/// Nothing: undefined.
using Value = std::optional<Json>;

inline constexpr std::size_t kMaxText_bytes = std::size_t{1} << 20;

/// Throws Unsupported; so do all that follow, where a value is not of the kind that they take.
[[noreturn]] void fail(const std::string& what);

bool is_true(const Value& value);
/// `what` names who asks, for the message.
const std::string& text_of(const Value& value, const std::string& what);
std::int64_t integer_of(const Value& value, const std::string& what);
/// About the memory that a value takes.
std::size_t weight_of(const Json& value);
/// As Python's str() writes it.
std::string printed(const Value& value);

bool are_equal(const Value& left, const Value& right);
/// part in whole.
bool contains(const Value& whole, const Value& part);
/// sign: <, <=, > or >=.
bool compare(std::string_view sign, const Value& left, const Value& right);
/// + of two texts; +, -, *, % of integers.
Json calculate(std::string_view sign, const Value& left, const Value& right);
/// The text itself, unless it is longer than kMaxText_bytes.
Json checked(std::string text);

/// The index that Python's list[at] means, or nothing outside of it.
std::optional<std::size_t> index_in(std::int64_t at, std::size_t size);
/// Python's strip, lstrip and rstrip: of white space, or of the characters of `set`.
Json stripped(std::string_view text, const Value& set, bool left, bool right);
Json split(std::string_view text, const std::string& separator);
Json replaced(std::string_view text, const std::string& from, const std::string& to);

}  // namespace qrl::data::jinja
