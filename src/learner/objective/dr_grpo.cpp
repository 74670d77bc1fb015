#include "learner/objective/policy_losses.h"

namespace qrl::learner {

extern const PolicyLoss dr_grpo_loss;
const PolicyLoss dr_grpo_loss{{.word = "dr_grpo",
                               .what = "ratios of tokens, sums over a fixed length, no division by the deviation",
                               .paper = "Liu et al. 2025, Dr. GRPO",
                               .defaults = {{"algorithm.clip_ratio_low", "0.2"},
                                            {"algorithm.clip_ratio_high", "0.2"},
                                            {"algorithm.clip_ratio_c", "0"},
                                            {"algorithm.loss_agg_mode", "seq-mean-token-sum-norm"},
                                            {"algorithm.norm_adv_by_std", "false"}}},
                              token_ratio_surrogate};

}  // namespace qrl::learner
