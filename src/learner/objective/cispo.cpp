#include "learner/objective/objective.h"
#include "learner/objective/policy_losses.h"
#include "learner/objective/statistics.h"

namespace qrl::learner {

namespace {

/// Computes J_t = sg(min(R_t, 1 + ε_h))·A·log π_θ (MiniMax-M1, eq. 4 and 5).
Surrogate capped_weight_surrogate(const SurrogateInput& input, const SurrogateSettings& settings) {
  const torch::Tensor now = input.log_ratio.detach().exp();
  return {now.clamp_max(1 + settings.clip.high) * input.tokens.advantages * input.tokens.log_probs,
          torch::zeros(now.sizes(), torch::kUInt8), now};
}

void add_capped(const ObjectiveTokens& tokens, const ObjectiveSettings& settings, const Objective& terms,
                Statistics& statistics) {
  const torch::Tensor capped = terms.surrogate.ratio > 1 + settings.surrogate.clip.high;
  statistics.add_mean("cispo/capped_fraction", capped.sum().item<double>(),
                      static_cast<double>(tokens.sequences.num_tokens()));
}

std::vector<config::Constraint> constraints_of_cispo() {
  std::vector<config::Constraint> constraints = constraints_of_weighted_log_probs();
  constraints.push_back(
      {"algorithm.clip_ratio_low", {"null"}, "the weight has no lower bound: set it to null or delete it"});
  return constraints;
}

}  // namespace

extern const PolicyLoss cispo_loss;
const PolicyLoss cispo_loss{{.word = "cispo",
                             .what = "log-probs weighted by capped ratios, no token is left out",
                             .paper = "MiniMax-M1, eq. 4 and 5; the cap of 5 is ScaleRL's",
                             .defaults = {{"algorithm.clip_ratio_high", "4"},
                                          {"algorithm.clip_ratio_c", "0"},
                                          {"algorithm.loss_agg_mode", "token-mean"},
                                          {"algorithm.norm_adv_by_std", "true"}},
                             .constraints = constraints_of_cispo(),
                             .needs_updates = true},
                            capped_weight_surrogate,
                            nullptr,
                            add_capped};

}  // namespace qrl::learner
