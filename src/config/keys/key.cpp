#include "config/keys/key.h"

#include <algorithm>
#include <utility>

namespace qrl::config {

namespace {

/// Splits "A, B or C".
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t comma = text.find(", ", begin), last = text.find(" or ", begin);
    const std::size_t end = std::min({comma, last, text.size()});
    words.push_back(text.substr(begin, end - begin));
    begin = end + (end == comma ? 2 : 4);
  }
  return words;
}

}  // namespace

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
  const std::vector<std::string_view> words = words_of(values.substr(excludes ? kOther.size() : 0));
  return (std::find(words.begin(), words.end(), value) != words.end()) != excludes;
}

Condition condition_of(const std::string& key, const std::string& values) {
  return {key, values,
          [key, values](const Recipe& recipe) { return has_value(*recipe.keys->find(key), recipe, values); }};
}

Key& Key::free() {
  on_resume = OnResume::free;
  return *this;
}

Key& Key::allow_change() {
  on_resume = OnResume::allow_change;
  return *this;
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

Key& Key::conflicts_with(std::string other, std::string advice) {
  conflicts.emplace_back(std::move(other), std::move(advice));
  return *this;
}

Keys::Keys(Catalog catalog, Declare declare) : catalog_(std::move(catalog)) {
  defaults_.keys = this;
  defaults_.algorithm.name = catalog_.losses.standard;
  defaults_.algorithm.adv_estimator = catalog_.estimators.standard;
  defaults_.rollout_correction.method = catalog_.corrections.standard;
  defaults_.reward.verifier = catalog_.verifiers.standard;
  defaults_.algorithm.kl_loss_type = catalog_.kl_estimators.standard;
  all_ = declare(catalog_);
  for (const Key& key : all_) names_.push_back(key.name);
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

std::vector<Selector> selectors_of(const Recipe& recipe) {
  const Catalog& catalog = recipe.keys->catalog();
  return {{"mode", &catalog.modes, &recipe.mode},
          {"algorithm.adv_estimator", &catalog.estimators, &recipe.algorithm.adv_estimator},
          {"algorithm.name", &catalog.losses, &recipe.algorithm.name},
          {"rollout_correction.method", &catalog.corrections, &recipe.rollout_correction.method},
          {"reward.verifier", &catalog.verifiers, &recipe.reward.verifier}};
}

}  // namespace qrl::config
