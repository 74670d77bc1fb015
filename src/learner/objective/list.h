#pragma once

#include <string_view>

#include "config/choice.h"

namespace qrl::learner {

struct PolicyLoss;   // policy_losses.h
struct Correction;   // corrections.h
struct KlEstimator;  // kl.h

config::Choices policy_losses();  ///< each a PolicyLoss
config::Choices corrections();    ///< each a Correction
config::Choices kl_estimators();  ///< each a KlEstimator

/// Return a word's choice in a catalog's list, or null.
const PolicyLoss* find_policy_loss(const config::Choices& losses, std::string_view word);
const Correction* find_correction(const config::Choices& corrections, std::string_view word);
const KlEstimator* find_kl_estimator(const config::Choices& estimators, std::string_view word);

}  // namespace qrl::learner
