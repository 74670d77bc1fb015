// Owns the options of algorithm.name, rollout_correction.method and algorithm.kl_loss_type.
#pragma once

#include "config/option.h"

namespace qrl::learner {

struct PolicyLoss;
struct Correction;
struct KlEstimator;

config::Choices<PolicyLoss> policy_losses();
config::Choices<Correction> corrections();
config::Choices<KlEstimator> kl_estimators();

}  // namespace qrl::learner
