#include "learner/objective/sequence_ratio.h"

namespace qrl::learner {

torch::Tensor sequence_ratio(const SurrogateInput& input, bool token_form) {
  const Sequences& sequences = input.tokens.sequences;
  if (!token_form) return sequences.on_tokens(sequences.mean(input.log_ratio)).exp();
  const torch::Tensor now = input.log_ratio.detach();
  return (input.log_ratio - now + sequences.on_tokens(sequences.mean(now))).exp();
}

std::vector<config::Constraint> constraints_of_sequence_ratios() {
  return {{"algorithm.clip_ratio_c", {"0.0"}, "the dual clip bounds a token's ratio: set it to 0"},
          {"algorithm.loss_agg_mode",
           {"seq-mean-token-mean"},
           "the surrogate belongs to the sequence and its mean goes over sequences: set it to null"},
          {"rollout_correction.acr",
           {"false"},
           "a token's truncation does not move the clip range of a sequence's ratio: set it to false"},
          {"rollout_correction.behaviour_in_ratio",
           {"false"},
           "it is the token ratio pi/mu inside the clip: set it to false"}};
}

}  // namespace qrl::learner
