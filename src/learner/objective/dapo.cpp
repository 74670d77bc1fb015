#include "learner/objective/policy_losses.h"

namespace qrl::learner {

extern const PolicyLoss dapo_loss;
const PolicyLoss dapo_loss{{.word = "dapo",
                            .what = "ratios of tokens, a wider upper bound, a mean over all tokens",
                            .paper = "Yu et al. 2025, eq. 8",
                            .defaults = {{"algorithm.clip_ratio_low", "0.2"},
                                         {"algorithm.clip_ratio_high", "0.28"},
                                         {"algorithm.clip_ratio_c", "10"},
                                         {"algorithm.loss_agg_mode", "token-mean"},
                                         {"algorithm.norm_adv_by_std", "true"}}},
                           token_ratio_surrogate};

}  // namespace qrl::learner
