#pragma once

#include <cstdint>

#include "config/words.h"
#include "learner/objective/corrections.h"
#include "learner/objective/kl.h"
#include "learner/objective/policy_losses.h"
#include "learner/objective/rejection.h"
#include "learner/objective/selection.h"
#include "learner/objective/tokens.h"
#include "learner/tensors/torch.h"

namespace qrl::learner {

/// Holds the denominators of the whole mini-batch over all ranks. Partial counts add up.
struct Denominators {
  std::int64_t tokens = 0;               ///< counted response tokens
  std::int64_t sequences = 0;            ///< sequences with a counted response token
  std::int64_t max_response_length = 0;  ///< data.max_response_length
};

/// Returns each token's share, float64 [M]; Σ_t share_t·x_t over all micro-batches and ranks is
///   token-mean                Σx / tokens                         (DAPO, eq. 8)
///   token-sum                 Σx
///   seq-mean-token-sum        mean over sequences of Σ_t x
///   seq-mean-token-mean       mean over sequences of mean_t x     (GRPO, eq. 3)
///   seq-mean-token-sum-norm   mean over sequences of Σ_t x / max_response_length   (Dr. GRPO)
torch::Tensor token_shares(config::LossAggMode mode, const Sequences& sequences, const Denominators& denominators);

struct ObjectiveSettings {
  const PolicyLoss* loss = nullptr;
  const Correction* method = nullptr;
  SurrogateSettings surrogate;
  CorrectionSettings correction;
  double weight_scale = 1;  ///< factor on the correction's weights
  RejectionSettings rejection;
  SelectionSettings selection;
  bool behaviour_in_ratio = false;
  config::LossAggMode loss_agg_mode = config::LossAggMode::seq_mean_token_mean;
  double kl_loss_coef = 0;
  const KlEstimator* kl = nullptr;  ///< with kl_loss_coef
  double entropy_coef = 0;
};

/// Returns the settings of a policy loss; throws an internal error without a loss and a correction.
ObjectiveSettings objective_settings(const LossOptions& options);

/// Holds a micro-batch's scalar shares of the mini-batch's terms, and token statistics.
struct Objective {
  torch::Tensor policy, kl;  ///< kl undefined without kl_loss_coef
  torch::Tensor total;       ///< policy + kl_loss_coef·kl − entropy_coef·entropy
  Surrogate surrogate;
  CorrectionWeights weights;
  torch::Tensor truncation;  ///< with acr: r_t, [M]; otherwise undefined
  Kept kept;
  Selected selected;
};

/// Aggregates −weight_t·J_t over kept and selected tokens, the KL penalty, and the entropy.
Objective objective(const ObjectiveTokens& tokens, const ObjectiveSettings& settings, const Denominators& denominators);

}  // namespace qrl::learner
