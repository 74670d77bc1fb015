#pragma once

#include "config/option.h"

namespace qrl::rollout {

/// Holds an estimator's inputs for one sample.
struct RewardSpread {
  double centred = 0;                   ///< reward − the group's mean; exactly 0 if the group's rewards are equal
  double group_std = 1, batch_std = 1;  ///< standard deviations, ddof 1; batch_std: see BatchStd
  std::int32_t n = 1;                   ///< number of the group's samples in the loss
  bool by_std = true;                   ///< algorithm.norm_adv_by_std
};

/// Added to a standard deviation before division by it.
inline constexpr double kAdvantageEps = 1e-6;

/// Selects the values whose standard deviation (ddof 1) is taken over a step's samples on all ranks: rewards, or reward
/// − group mean.
enum class BatchStd : std::uint8_t { none, of_rewards, of_centred };

struct AdvantageEstimator : config::Option {
  double (*advantage)(const RewardSpread&) = nullptr;
  BatchStd batch_std = BatchStd::none;
};

config::Choices<AdvantageEstimator> advantage_estimators();

}  // namespace qrl::rollout
