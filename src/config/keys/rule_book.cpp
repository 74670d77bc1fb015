#include "config/keys/rule_book.h"

namespace qrl::config {

namespace {

std::string shown(const Key& key, const Recipe& recipe) {
  const std::string value = key.resolved ? key.resolved(recipe) : key.print(recipe);
  return value == "null" || value == "[]" ? "none" : value;
}

/// Returns "KEY VALUES" for a message.
std::string expectation(const Key& key, const std::string& values, const Recipe& recipe) {
  if (values == "unset") return "no " + key.name;
  if (values == "set") return key.name;
  return key.name + " " + (values == "default" ? key.print(recipe.keys->defaults()) : values);
}

/// Returns " with KEY VALUE", the values for which a row has a requirement.
std::string occasion(const Key& key, const std::string& when, const Recipe& recipe) {
  if (when == "changed") return " beside " + key.name;
  if (when == "set" || when == "true") return " with " + key.name;
  return " with " + key.name + " " + (when.starts_with("above ") ? when : shown(key, recipe));
}

}  // namespace

void RuleBook::require(bool holds, const Fault& fault) {
  if (holds) return;
  std::string where = origins_.whole + ": " + fault.keys.front(), values;
  std::string of_mode;  // keys of the mode, not in the recipe's files
  bool placed = false;
  for (const std::string& key : fault.keys) {
    if (origins_.refused.contains(key)) return;
    values += (values.empty() ? "" : ", ") + key + " " + value(key);
    const auto place = origins_.places.find(key);
    if (place == origins_.places.end()) continue;
    if (!placed) where = place->second;
    else if (place->second.starts_with(kModePlace))
      of_mode += "; " + key + " is set by " + place->second.substr(0, place->second.find(':'));
    placed = true;
  }
  faults_.add(where, fault.expected, fault.got.empty() ? values : fault.got, fault.advice + of_mode);
}

std::string RuleBook::value(const std::string& key) const { return shown(*recipe_.keys->find(key), recipe_); }

void RuleBook::check_rows(bool is_record) {
  const auto is_override = [&](const std::string& key) {
    const auto place = origins_.places.find(key);
    return place != origins_.places.end() && place->second.starts_with("--set ");
  };
  for (const Key& key : recipe_.keys->all()) {
    const Condition& condition = key.condition;
    const bool has_effect = condition.key.empty() || condition.holds(recipe_);
    const bool may_be_idle = has_value(key, recipe_, "default") || key.print(recipe_) == key.former_default ||
                             (is_record && !is_override(key.name));
    if (!has_effect && !may_be_idle) {
      const Key& other = *recipe_.keys->find(condition.key);
      require(false, {.keys = {key.name, condition.key},
                      .expected = expectation(other, condition.values, recipe_) + " beside " + key.name,
                      .advice = condition.advice,
                      .got = shown(other, recipe_)});
    }
    if (has_effect) check_requirements(key);
  }
}

void RuleBook::check_requirements(const Key& key) {
  for (const Requirement& one : key.requirements) {
    const Key* other = recipe_.keys->find(one.key);
    if (other == nullptr || !has_value(key, recipe_, one.when)) continue;
    require(has_value(*other, recipe_, one.values),
            {.keys = {key.name, one.key},
             .expected = expectation(*other, one.values, recipe_) + occasion(key, one.when, recipe_),
             .advice = one.advice,
             .got = shown(*other, recipe_)});
  }
  for (const auto& [other, advice] : key.conflicts) {
    const bool both = has_value(key, recipe_, "changed") && has_value(*recipe_.keys->find(other), recipe_, "changed");
    require(!both, {.keys = {key.name, other}, .expected = key.name + " or " + other, .advice = advice, .got = "both"});
  }
}

}  // namespace qrl::config
