#include "rollout/estimators.h"

namespace qrl::rollout {

namespace {

std::vector<config::Constraint> constraints_without_group_std() {
  return {{"algorithm.norm_adv_by_std",
           {"false"},
           "set it to null or delete it: this estimator does not divide by the group's deviation"}};
}

const AdvantageEstimator kGrpo{{.word = "grpo",
                                .what = "reward - mean of the group, divided by its deviation with norm_adv_by_std",
                                .paper = "Shao et al. 2024, DeepSeekMath"},
                               [](const RewardSpread& spread) {
                                 return spread.by_std ? spread.centred / (spread.group_std + kAdvantageEps)
                                                      : spread.centred;
                               }};

const AdvantageEstimator kRloo{{.word = "rloo",
                                .what = "reward - mean of the group's other rewards",
                                .paper = "Ahmadian et al. 2024",
                                .defaults = {{"algorithm.norm_adv_by_std", "false"}},
                                .constraints = constraints_without_group_std()},
                               [](const RewardSpread& spread) {
                                 const double n = spread.n;
                                 return spread.centred * (n / (n - 1));
                               }};

double divided_by_batch_std(const RewardSpread& spread) { return spread.centred / (spread.batch_std + kAdvantageEps); }

const AdvantageEstimator kBatchStd{
    {.word = "batch_std",
     .what = "reward - mean of the group, divided by the deviation of the step's rewards",
     .paper = "Liu et al. 2025, Lite PPO",
     .defaults = {{"algorithm.norm_adv_by_std", "false"}},
     .constraints = constraints_without_group_std()},
    divided_by_batch_std,
    BatchStd::of_rewards};

const AdvantageEstimator kReinforcePlusPlusBaseline{
    {.word = "reinforce_plus_plus_baseline",
     .what = "reward - mean of the group, divided by the deviation of these differences over the step",
     .paper = "Hu et al. 2025, REINFORCE++ with baseline",
     .defaults = {{"algorithm.norm_adv_by_std", "false"}},
     .constraints = constraints_without_group_std(),
     .former = "reinforce_pp"},
    divided_by_batch_std,
    BatchStd::of_centred};

}  // namespace

config::Choices<AdvantageEstimator> advantage_estimators() {
  return {{&kGrpo, &kRloo, &kBatchStd, &kReinforcePlusPlusBaseline}, "grpo"};
}

}  // namespace qrl::rollout
