#include "config/rules.h"

#include <algorithm>

#include "base/text.h"

namespace qrl::config {

namespace {

/// Returns the values that has_value compares, or "none" for null.
std::string shown(const Key& key, const Recipe& recipe) {
  const std::string value = key.effective ? base::joined(key.effective(recipe), ", ") : key.print(recipe);
  return value == "null" || value == "[]" ? "none" : value;
}

std::string expectation(const Key& key, const std::string& values) {
  const Recipe& defaults = key.keys->defaults();
  if (values == "unset" || (values == "default" && shown(key, defaults) == "none")) return "no " + key.name;
  if (values == "set") return key.name;
  return key.name + " " + (values == "default" ? key.print(defaults) : values);
}

/// Returns " with KEY VALUE", the case in which a requirement applies.
std::string circumstance(const Key& key, const std::string& when, const Recipe& recipe) {
  if (when.empty()) return "";
  if (when == "changed") return " with " + key.name;
  if (when == "set" || when == "true") return " with " + key.name;
  return " with " + key.name + " " + (when.starts_with("above ") ? when : shown(key, recipe));
}

}  // namespace

bool Origins::is_override(std::string_view key) const {
  const auto place = places.find(std::string(key));
  return place != places.end() && place->second.starts_with("--set ");
}

void RuleBook::require(bool holds, const std::vector<std::string>& keys, const std::string& expected,
                       const std::string& advice, const std::string& got) {
  if (holds) return;
  std::string where = origins_.whole + ": " + keys.front(), values;
  std::string of_mode;  // text about keys that the mode sets
  bool placed = false;
  for (const std::string& key : keys) {
    if (origins_.invalid.contains(key)) return;
    values += (values.empty() ? "" : ", ") + key + " " + shown(*keys_.find(key), recipe_);
    const auto origin = origins_.places.find(key);
    if (origin == origins_.places.end()) continue;
    const std::string& place = origin->second;
    if (!placed) where = place;
    else if (place.starts_with(kModePlace)) of_mode += "; " + key + " is set by " + place.substr(0, place.find(':'));
    placed = true;
  }
  errors_.add(where, expected, got.empty() ? values : got, advice + of_mode);
}

void RuleBook::check_rows(bool is_record) {
  for (const Key& key : keys_.all()) {
    if (key.acts(recipe_)) {
      check_requirements(key);
      continue;
    }
    const bool may_be_idle = has_value(key, recipe_, "default") || (is_record && !origins_.is_override(key.name));
    const Condition& needed = key.condition;
    const Key& other = *keys_.find(needed.key);
    require(may_be_idle, {key.name, needed.key}, expectation(other, needed.values) + " with " + key.name, needed.advice,
            shown(other, recipe_));
  }
}

void RuleBook::check_options() {
  for (const auto& [selector, option] : keys_.selected_options(recipe_)) {
    if (option == nullptr) continue;
    for (const Constraint& limit : option->constraints) {
      const std::string value = keys_.find(limit.key)->print(recipe_);
      const std::string values = base::joined(limit.values, " or ");
      const bool holds =
          value == "null" || std::find(limit.values.begin(), limit.values.end(), value) != limit.values.end();
      require(
          holds, {limit.key, selector},
          (values == "null" ? "no " + limit.key : limit.key + " " + values) + " with " + selector + " " + option->word,
          limit.reason, value);
    }
  }
}

void RuleBook::check_requirements(const Key& key) {
  for (const Requirement& one : key.requirements) {
    const Key* other = keys_.find(one.key);
    if (other == nullptr || (!one.when.empty() && !has_value(key, recipe_, one.when))) continue;
    require(has_value(*other, recipe_, one.values), {key.name, one.key},
            expectation(*other, one.values) + circumstance(key, one.when, recipe_), one.advice,
            one.when.empty() ? "" : shown(*other, recipe_));
  }
}

}  // namespace qrl::config
