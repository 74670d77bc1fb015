#include "learner/grpo.h"

namespace qrl::learner {

GrpoLoss grpo_loss(const GrpoTokens& tokens, const GrpoSettings& settings) {
  const torch::Tensor weights = seq_mean_token_mean_weights(tokens.sequence_of_token, settings.num_sequences);
  const torch::Tensor ratio = probability_ratio(tokens.log_probs, tokens.old_log_probs);
  const torch::Tensor correction =
      correction_weights(tokens.old_log_probs, tokens.sampler_log_probs, settings.correction);

  GrpoLoss loss;
  loss.policy = (weights * correction * clipped_policy_loss(ratio, tokens.advantages, settings.clip)).sum();
  loss.total = loss.policy;
  if (settings.kl_loss_coef != 0) {
    loss.kl = (weights * kl_penalty(tokens.log_probs, tokens.reference_log_probs, settings.kl_loss_type)).sum();
    loss.total = loss.total + settings.kl_loss_coef * loss.kl;
  }
  if (settings.entropy_coef != 0) {
    loss.total = loss.total - settings.entropy_coef * (weights * tokens.entropy).sum();
  }
  return loss;
}

}  // namespace qrl::learner
