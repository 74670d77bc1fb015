// Owns the search among keys, and the keys that select a choice.
#include <algorithm>

#include "config/keys.h"

namespace qrl::config {

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
