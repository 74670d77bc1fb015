#include "config/keys/key.h"

#include <algorithm>
#include <utility>

namespace qrl::config {

bool has_value(const Key& key, const Recipe& recipe, std::string_view values) {
  constexpr std::string_view kAbove = "above ", kOther = "other than ";
  const std::string value = key.resolved ? key.resolved(recipe) : key.print(recipe);
  const bool is_unset = value == "null" || value == "[]";
  if (values == "set" || values == "unset") return is_unset == (values == "unset");
  if (values == "default" || values == "changed")
    return (value == key.print(recipe.keys->defaults())) == (values == "default");
  if (values.starts_with(kAbove))
    return is_unset || std::stod(value) > std::stod(std::string(values.substr(kAbove.size())));
  const bool excludes = values.starts_with(kOther);
  if (excludes) values.remove_prefix(kOther.size());
  bool is_listed = false;
  for (const std::string_view part : split(values, ", ")) {
    for (const std::string_view word : split(part, " or ")) is_listed |= word == value;
  }
  return is_listed != excludes;
}

Condition condition_of(const std::string& key, const std::string& values) {
  return {key, values,
          [key, values](const Recipe& recipe) { return has_value(*recipe.keys->find(key), recipe, values); }};
}

Key& Key::only_with(const std::string& other, const std::string& values, std::function<bool(const Recipe&)> holds) {
  condition = condition_of(other, values);
  if (holds) condition.holds = std::move(holds);
  return *this;
}

Key& Key::needs(std::string when, std::string other, std::string values, std::string advice) {
  requirements.push_back({std::move(when), std::move(other), std::move(values), std::move(advice)});
  return *this;
}

Key& Key::unset_by(const std::string& selector, const AnyChoices& choices) {
  const auto shown = [&](const Option& one) {
    const std::string value = one.default_of(name);
    return value == "null" ? "none" : value;
  };
  unset = choices.all().empty() ? "none" : shown(*choices.all().front());
  const std::string first = unset;
  for (const Option* one : choices.all()) {
    if (shown(*one) != first) unset += "; " + one->word + " " + shown(*one);
  }
  fill = [name = name, read = read, print = print, selector](Recipe& recipe) {
    for (const auto& [key, option] : selected_options(recipe)) {
      if (key != selector || option == nullptr || print(recipe) != "null") continue;
      if (const std::string value = option->default_of(name); value != "null")
        read(*parse_own_yaml(value, name), recipe);
    }
  };
  return *this;
}

Key& Key::conflicts_with(std::string other, std::string advice) {
  conflicts.emplace_back(std::move(other), std::move(advice));
  return *this;
}

const Key* Keys::find(std::string_view name) const {
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const Key& key) { return key.name == name; });
  return found == all_.end() ? nullptr : &*found;
}

bool Keys::is_section(std::string_view name) const {
  return std::any_of(names_.begin(), names_.end(), [&](const std::string& key) {
    return name.empty() || (key.size() > name.size() && key.starts_with(name) && key[name.size()] == '.');
  });
}

std::vector<std::pair<std::string, const Option*>> selected_options(const Recipe& recipe) {
  return {{"mode", recipe.mode.option()},
          {"algorithm.adv_estimator", recipe.algorithm.adv_estimator.option()},
          {"algorithm.name", recipe.algorithm.name.option()},
          {"rollout_correction.method", recipe.rollout_correction.method.option()},
          {"reward.verifier", recipe.reward.verifier.option()}};
}

}  // namespace qrl::config
