// Owns the lists behind algorithm.name, rollout_correction.method and algorithm.kl_loss_type.
#pragma once

#include "config/choice.h"

namespace qrl::learner {

config::Choices policy_losses();  ///< each a PolicyLoss
config::Choices corrections();    ///< each a Correction
config::Choices kl_estimators();  ///< each a KlEstimator

}  // namespace qrl::learner
