// Owns the list of advantage estimators: what a recipe's word algorithm.adv_estimator selects.
#pragma once

#include "config/choice.h"

namespace qrl::rollout {

/// What an advantage is made of besides its reward.
struct RewardSpread {
  double centred = 0;                   ///< reward − mean of the group; exactly 0 in a group of equal rewards
  double group_std = 1, batch_std = 1;  ///< ddof 1; batch_std: as BatchStd says
  std::int32_t n = 1;                   ///< of the group
  bool by_std = true;                   ///< algorithm.norm_adv_by_std
};

/// Added to a deviation that is divided by.
inline constexpr double kAdvantageEps = 1e-6;

/// A deviation over all of a step's samples and ranks, with ddof 1: of the rewards, or of reward − mean of the group.
enum class BatchStd : std::uint8_t { none, of_rewards, of_centred };

/// An estimator: its word and its function.
struct AdvantageEstimator : config::Choice {
  double (*advantage)(const RewardSpread&) = nullptr;
  BatchStd batch_std = BatchStd::none;
};

config::Choices advantage_estimators();  ///< each an AdvantageEstimator

}  // namespace qrl::rollout
