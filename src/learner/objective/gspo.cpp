#include "learner/objective/policy_losses.h"

namespace qrl::learner {

torch::Tensor sequence_ratio(const SurrogateInput& input, bool token_form) {
  const Sequences& sequences = input.tokens.sequences;
  if (!token_form) return sequences.on_tokens(sequences.mean(input.log_ratio)).exp();
  const torch::Tensor now = input.log_ratio.detach();
  return (input.log_ratio - now + sequences.on_tokens(sequences.mean(now))).exp();
}

std::vector<config::Constraint> constraints_of_sequence_ratios() {
  return {
      {"algorithm.clip_ratio_c", {"0.0"}, "the dual clip bounds a token's ratio: set it to 0"},
      {"algorithm.loss_agg_mode",
       {"seq-mean-token-mean"},
       "this loss has one ratio per sequence and averages over sequences: set it to null"},
      {"rollout_correction.acr",
       {"false"},
       "truncated token weights do not change the clip range of a sequence ratio: set it to false"},
      {"rollout_correction.behaviour_in_ratio", {"false"}, "it needs a loss that clips token ratios: set it to false"}};
}

namespace {

/// Computes GSPO (Zheng et al. 2025, eq. 5 and 7): J_i = min(s_i·A, clip(s_i, 1 − ε_l, 1 + ε_h)·A). Its token form (eq.
/// 13 ff.) has the same gradient if all tokens of a sequence have the same weight.
Surrogate sequence_ratio_surrogate(const SurrogateInput& input, const SurrogateSettings& settings) {
  const torch::Tensor& advantages = input.tokens.advantages;
  const torch::Tensor ratio = sequence_ratio(input, settings.token_form), now = ratio.detach();
  const torch::Tensor low = torch::full_like(now, 1 - settings.clip.low);
  const torch::Tensor high = torch::full_like(now, 1 + settings.clip.high);
  return {clipped_objective(ratio, advantages, low, high), clip_sides(now, advantages, low, high), now};
}

}  // namespace

extern const PolicyLoss gspo_loss;
const PolicyLoss gspo_loss{
    {.word = "gspo",
     .what = "sequence ratios",
     .paper = "Zheng et al. 2025, eq. 5 and 7",
     .defaults = {{"algorithm.clip_ratio_low", "3e-4"},
                  {"algorithm.clip_ratio_high", "4e-4"},
                  {"algorithm.clip_ratio_c", "0"},
                  {"algorithm.loss_agg_mode", "seq-mean-token-mean"},
                  {"algorithm.norm_adv_by_std", "true"}},
     .constraints = constraints_of_sequence_ratios(),
     .aliases = {{"importance_sampling_level", "algorithm.name", "gspo for sequence, a token-level loss for token"}},
     .needs_updates = true},
    sequence_ratio_surrogate};

}  // namespace qrl::learner
