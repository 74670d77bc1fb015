// Owns the lists of losses and corrections: what a recipe's words algorithm.name and rollout_correction.method select.
// Knows no formula.
#pragma once

#include "config/choice.h"

namespace qrl::learner {

config::Choices policy_losses();  ///< each a PolicyLoss
config::Choices corrections();    ///< each a Correction

}  // namespace qrl::learner
