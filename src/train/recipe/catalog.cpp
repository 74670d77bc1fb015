#include "train/recipe/catalog.h"

#include <algorithm>
#include <initializer_list>

#include "config/modes/modes.h"
#include "learner/objective/list.h"
#include "rollout/estimators.h"
#include "tasks/task.h"

namespace qrl::train {

Catalog catalog() {
  return {.losses = learner::policy_losses(),
          .corrections = learner::corrections(),
          .modes = config::modes(),
          .generators = tasks::generators(),
          .verifiers = tasks::verifiers(),
          .kl_estimators = learner::kl_estimators(),
          .estimators = rollout::advantage_estimators()};
}

const Keys& keys() {
  static const Keys all(catalog());
  return all;
}

config::SelectedOptions Keys::selected_options(const Recipe& recipe) const {
  return {{"algorithm.adv_estimator", recipe.algorithm.adv_estimator.option()},
          {"algorithm.name", recipe.algorithm.name.option()},
          {"rollout_correction.method", recipe.rollout_correction.method.option()},
          {"reward.verifier", recipe.reward.verifier.option()}};
}

std::vector<const config::Option*> Keys::options() const {
  std::vector<const config::Option*> all;
  for (const config::AnyChoices* choices : std::initializer_list<const config::AnyChoices*>{
           &catalog_.losses, &catalog_.corrections, &catalog_.modes, &catalog_.generators, &catalog_.verifiers,
           &catalog_.kl_estimators, &catalog_.estimators})
    all.insert(all.end(), choices->all().begin(), choices->all().end());
  return all;
}

bool operator==(const Recipe& one, const Recipe& other) {
  const std::vector<config::Key>& keys = one.keys->all();
  return std::ranges::all_of(keys, [&](const config::Key& key) { return key.equal(one, other); });
}

std::string printed_value(const Recipe& recipe, std::string_view key) { return recipe.keys->find(key)->print(recipe); }

}  // namespace qrl::train
