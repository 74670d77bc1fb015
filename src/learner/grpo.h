// Owns how the parts of the GRPO objective make one number. Pure; knows neither models nor batches.
#pragma once

#include "learner/corrections.h"
#include "learner/losses.h"

namespace qrl::learner {

/// The M counted tokens of a micro-batch, [M] each, one float dtype, all about the drawn token.
struct GrpoTokens {
  torch::Tensor log_probs, entropy;   ///< under the policy now; the gradient flows into these
  torch::Tensor old_log_probs;        ///< under the learner that drew
  torch::Tensor sampler_log_probs;    ///< under the sampler
  torch::Tensor reference_log_probs;  ///< read with kl_loss_coef ≠ 0 only
  torch::Tensor advantages;
  torch::Tensor sequence_of_token;  ///< int64
};

struct GrpoSettings {
  ClipRange clip;
  config::CorrectionRecipe correction;
  double kl_loss_coef = 0;
  config::KlType kl_loss_type = config::KlType::k3;
  double entropy_coef = 0;
  std::int64_t num_sequences = 0;  ///< that count, of the whole mini-batch on all ranks
};

/// A micro-batch's shares (scalars) of the mini-batch's terms.
struct GrpoLoss {
  torch::Tensor policy, kl;  ///< kl undefined without kl_loss_coef
  torch::Tensor total;       ///< policy + kl_loss_coef·kl − entropy_coef·entropy
};

/// Each term is the seq-mean-token-mean of: correction weight · clipped policy loss; KL penalty; entropy.
GrpoLoss grpo_loss(const GrpoTokens& tokens, const GrpoSettings& settings);

}  // namespace qrl::learner
