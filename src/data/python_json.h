// Owns JSON in Python's spelling, which chat templates show to a model.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace qrl::data {

/// Equals json.dumps(value, ensure_ascii=False), with members in the order of `Json`.
template <class Json>
std::string python_json(const Json& value) {
  std::string text;
  if (value.is_object()) {
    for (const auto& [name, member] : value.items())
      text += (text.empty() ? "" : ", ") + Json(name).dump() + ": " + python_json(member);
    return "{" + text + "}";
  }
  if (!value.is_array()) return value.dump();
  for (const Json& item : value) text += (text.empty() ? "" : ", ") + python_json(item);
  return "[" + text + "]";
}

}  // namespace qrl::data
