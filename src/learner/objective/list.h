// Owns the lists of losses, corrections and KL estimators: what a recipe's words algorithm.name,
// rollout_correction.method and algorithm.kl_loss_type select. Knows no formula.
#pragma once

#include "config/choice.h"

namespace qrl::learner {

config::Choices policy_losses();  ///< each a PolicyLoss
config::Choices corrections();    ///< each a Correction
config::Choices kl_estimators();  ///< each a KlEstimator

}  // namespace qrl::learner
