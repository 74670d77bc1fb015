#include "config/keys/key.h"

#include <algorithm>
#include <utility>

namespace qrl::config {

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
