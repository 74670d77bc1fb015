// Owns the conversion of a recipe's words to a loss for the learner's tests.
#pragma once

#include <string>

#include "config/modes/modes.h"
#include "learner/learner.h"
#include "learner/objective/list.h"
#include "learner/objective/mini_batch.h"
#include "train/plan/options.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"

namespace qrl::test {

/// Returns the loss of a recipe's text, from the learner's own lists.
inline learner::LossOptions policy_options(const std::string& yaml = "trainer: {seed: 0}") {
  static const train::Keys keys({.losses = learner::policy_losses(),
                                 .corrections = learner::corrections(),
                                 .modes = config::modes(),
                                 .kl_estimators = learner::kl_estimators()});
  return train::loss_options(train::parse_recipe(keys, yaml, "test", {}, {}, false).recipe);
}
inline learner::LossOptions policy_options(const std::string& loss, const std::string& correction) {
  return policy_options("{algorithm: {" + loss + "}, rollout_correction: {" + correction + "}}");
}

}  // namespace qrl::test
