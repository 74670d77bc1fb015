#include "data/jinja/values.h"

#include <algorithm>

#include "data/jinja/jinja.h"
#include "data/tokenizer/unicode.h"

namespace qrl::data::jinja {

void fail(const std::string& what) { throw Unsupported(what); }

bool is_true(const Value& value) {
  if (!value || value->is_null()) return false;
  if (value->is_boolean()) return value->get<bool>();
  if (value->is_number()) return value->get<std::int64_t>() != 0;
  if (value->is_string()) return !value->get_ref<const std::string&>().empty();
  return !value->empty();
}

const std::string& text_of(const Value& value, const std::string& what) {
  if (!value || !value->is_string()) fail(what + " of what is no text");
  return value->get_ref<const std::string&>();
}

std::int64_t integer_of(const Value& value, const std::string& what) {
  if (!value || !value->is_number_integer()) fail(what + " of what is no integer");
  return value->get<std::int64_t>();
}

Json checked(std::string text) {
  if (text.size() > kMaxText_bytes) fail("a text of more than 1 MiB");
  return text;
}

std::size_t weight_of(const Json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().size();
  std::size_t sum = 16;
  if (value.is_structured()) {
    for (const Json& part : value) sum += 16 + weight_of(part);
  }
  return sum;
}

std::string printed(const Value& value) {
  if (!value) return {};
  if (value->is_string()) return value->get<std::string>();
  if (value->is_boolean()) return value->get<bool>() ? "True" : "False";
  if (value->is_null()) return "None";
  if (value->is_number()) return value->dump();
  fail("a list or an object where text belongs");
}

bool are_equal(const Value& left, const Value& right) {
  if (!left || !right) return !left && !right;
  // In Python 1 == True.
  if (left->is_boolean() != right->is_boolean() && left->is_number() != right->is_number())
    fail("the comparison of a number and a truth value");
  return *left == *right;
}

bool contains(const Value& whole, const Value& part) {
  if (!whole) fail("`in` of what is not defined");
  if (whole->is_string()) return whole->get_ref<const std::string&>().find(text_of(part, "`in`")) != std::string::npos;
  if (whole->is_object()) return whole->contains(text_of(part, "`in`"));
  if (!whole->is_array()) fail("`in` of what holds nothing");
  return std::any_of(whole->begin(), whole->end(), [&](const Json& one) { return are_equal(one, part); });
}

bool compare(std::string_view sign, const Value& left, const Value& right) {
  const std::int64_t a = integer_of(left, "an order"), b = integer_of(right, "an order");
  if (sign == "<") return a < b;
  if (sign == "<=") return a <= b;
  return sign == ">" ? a > b : a >= b;
}

Json calculate(std::string_view sign, const Value& left, const Value& right) {
  const bool both_text = left && right && left->is_string() && right->is_string();
  if (sign == "+" && both_text) return checked(left->get<std::string>() + right->get<std::string>());
  const std::string what = "`" + std::string(sign) + "`";
  const std::int64_t a = integer_of(left, what), b = integer_of(right, what);
  std::int64_t result = 0;
  bool overflows = false;
  if (sign == "+") overflows = __builtin_add_overflow(a, b, &result);
  else if (sign == "-") overflows = __builtin_sub_overflow(a, b, &result);
  else if (sign == "*") overflows = __builtin_mul_overflow(a, b, &result);
  else if (sign == "%" && a >= 0 && b > 0) result = a % b;
  else fail("the operator " + what);
  if (overflows) fail("a number of more than 64 bits");
  return result;
}

std::optional<std::size_t> index_in(std::int64_t at, std::size_t size) {
  const auto count = static_cast<std::int64_t>(size);
  if (at < 0) at += count;
  return at < 0 || at >= count ? std::nullopt : std::optional(static_cast<std::size_t>(at));
}

Json stripped(std::string_view text, const Value& set, bool left, bool right) {
  const std::string characters = set ? text_of(set, "strip") : std::string();
  if (!std::ranges::all_of(characters, [](unsigned char c) { return c < 0x80; }))
    fail("strip of characters beyond ASCII");
  const auto ends = [&](bool front) -> std::size_t {
    if (!set) return front ? leading_space_bytes(text) : trailing_space_bytes(text);
    const std::size_t at = front ? text.find_first_not_of(characters) : text.find_last_not_of(characters);
    if (at == std::string_view::npos) return text.size();
    return front ? at : text.size() - 1 - at;
  };
  if (left) text.remove_prefix(ends(true));
  if (right) text.remove_suffix(ends(false));
  return std::string(text);
}

Json split(std::string_view text, const std::string& separator) {
  if (separator.empty()) fail("split at nothing");
  Json parts = Json::array();
  for (std::size_t at = 0; (at = text.find(separator)) != std::string_view::npos;) {
    parts.push_back(std::string(text.substr(0, at)));
    text.remove_prefix(at + separator.size());
  }
  parts.push_back(std::string(text));
  return parts;
}

Json replaced(std::string_view text, const std::string& from, const std::string& to) {
  if (from.empty()) fail("replace of nothing");
  std::string out;
  for (std::size_t at = 0; (at = text.find(from)) != std::string_view::npos; text.remove_prefix(at + from.size())) {
    out += std::string(text.substr(0, at)) + to;
    if (out.size() > kMaxText_bytes) break;
  }
  return checked(out.append(text));
}

}  // namespace qrl::data::jinja
