// Owns the list of advantage estimators: what a recipe's word algorithm.adv_estimator selects.
#pragma once

#include "config/choice.h"

namespace qrl::rollout {

/// What an advantage is made of besides its reward.
struct RewardSpread {
  double centred = 0;                   ///< reward − mean of the group; exactly 0 in a group of equal rewards
  double group_std = 1, batch_std = 1;  ///< ddof 1
  std::int32_t n = 1;                   ///< of the group
  bool by_std = true;                   ///< algorithm.norm_adv_by_std
};

/// Added to a deviation that is divided by.
inline constexpr double kAdvantageEps = 1e-6;

/// An estimator: its word and its function.
struct AdvantageEstimator : config::Choice {
  double (*advantage)(const RewardSpread&) = nullptr;
  bool needs_batch_std = false;  ///< the deviation of all of a step's rewards, over all ranks
};

config::Choices advantage_estimators();  ///< each an AdvantageEstimator

}  // namespace qrl::rollout
