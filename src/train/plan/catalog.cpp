#include "train/plan/catalog.h"

#include "config/modes/modes.h"
#include "learner/objective/list.h"
#include "rollout/estimators.h"
#include "tasks/task.h"

namespace qrl::train {

config::Catalog catalog() {
  return {.losses = learner::policy_losses(),
          .corrections = learner::corrections(),
          .modes = config::modes(),
          .generators = tasks::generators(),
          .verifiers = tasks::verifiers(),
          .kl_estimators = learner::kl_estimators(),
          .estimators = rollout::advantage_estimators()};
}

const config::Keys& keys() {
  static const config::Keys all(catalog());
  return all;
}

}  // namespace qrl::train
