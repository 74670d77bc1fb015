#include "learner/objective/policy_losses.h"

namespace qrl::learner {

/// Computes GRPO (Shao et al. 2024, "DeepSeekMath", eq. 3) with PPO's clip (Schulman et al. 2017, eq. 7):
/// J_t = min(R_t·A, clip(R_t, 1 − ε_l, (1 + ε_h)·relief_t)·A). relief_t is 1/r_t with QuRL's ACR (eq. 9), else 1. A
/// dual clip (Ye et al. 2020, eq. 4) replaces J_t by max(J_t, c·A) if A < 0. With `moved`, other tokens have J_t =
/// R_t·A.
Surrogate token_ratio_surrogate(const SurrogateInput& input, const SurrogateSettings& settings) {
  const torch::Tensor& advantages = input.tokens.advantages;
  const torch::Tensor ratio = input.log_ratio.exp(), now = ratio.detach();
  torch::Tensor high = torch::full_like(now, 1 + settings.clip.high);
  if (input.upper_relief.defined()) high = high * input.upper_relief;
  const torch::Tensor low = torch::full_like(now, 1 - settings.clip.low);
  Surrogate surrogate{clipped_objective(ratio, advantages, low, high), clip_sides(now, advantages, low, high), now};
  if (input.moved.defined()) {
    surrogate.objective = torch::where(input.moved, surrogate.objective, ratio * advantages);
    surrogate.side.masked_fill_(input.moved.logical_not(), static_cast<int>(ClipSide::none));
  }
  if (settings.dual_clip) {
    const double c = *settings.dual_clip;
    const torch::Tensor acts = (advantages < 0) & (now > c);
    surrogate.objective = torch::where(acts, c * advantages, surrogate.objective);
    surrogate.side.masked_fill_(acts, static_cast<int>(ClipSide::dual));
  }
  return surrogate;
}

extern const PolicyLoss grpo_loss;
const PolicyLoss grpo_loss{{.word = "grpo",
                            .what = "token ratios, averaged over each response",
                            .paper = "Shao et al. 2024, DeepSeekMath, eq. 3",
                            .defaults = {{"algorithm.clip_ratio_low", "0.2"},
                                         {"algorithm.clip_ratio_high", "0.2"},
                                         {"algorithm.clip_ratio_c", "0"},
                                         {"algorithm.loss_agg_mode", "seq-mean-token-mean"},
                                         {"algorithm.norm_adv_by_std", "true"}}},
                           token_ratio_surrogate};

extern const PolicyLoss dapo_loss;
const PolicyLoss dapo_loss{{.word = "dapo",
                            .what = "token ratios, a wider upper bound, averaged over all tokens",
                            .paper = "Yu et al. 2025, eq. 8",
                            .defaults = {{"algorithm.clip_ratio_low", "0.2"},
                                         {"algorithm.clip_ratio_high", "0.28"},
                                         {"algorithm.clip_ratio_c", "10"},
                                         {"algorithm.loss_agg_mode", "token-mean"},
                                         {"algorithm.norm_adv_by_std", "true"}}},
                           token_ratio_surrogate};

extern const PolicyLoss dr_grpo_loss;
const PolicyLoss dr_grpo_loss{{.word = "dr_grpo",
                               .what = "token ratios, sums over a fixed length, no division by the standard deviation",
                               .paper = "Liu et al. 2025, Dr. GRPO",
                               .defaults = {{"algorithm.clip_ratio_low", "0.2"},
                                            {"algorithm.clip_ratio_high", "0.2"},
                                            {"algorithm.clip_ratio_c", "0"},
                                            {"algorithm.loss_agg_mode", "seq-mean-token-sum-norm"},
                                            {"algorithm.norm_adv_by_std", "false"}}},
                              token_ratio_surrogate};

}  // namespace qrl::learner
