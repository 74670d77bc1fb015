#pragma once

#include <cstdint>

#include "config/option.h"
#include "learner/objective/corrections.h"
#include "learner/objective/policy_losses.h"
#include "learner/objective/selection.h"
#include "learner/objective/tokens.h"
#include "learner/options.h"
#include "learner/tensors/torch.h"

namespace qrl::learner {

inline constexpr double kMaxKl = 10;

/// Holds log ratios of each token, [M], clamped to ±20; the clamp does not stop gradients.
struct KlLogRatios {
  torch::Tensor to_reference;  ///< x = log π_θ − log π_ref
  torch::Tensor to_sampler;    ///< log π_θ − log μ
};

/// Estimates KL(π_θ ‖ π_ref) per token, as algorithm.kl_loss_type selects. docs/reference/algorithms.md lists values
/// and gradients. k1 to k3: Schulman 2020, "Approximating KL divergence". k3 is limited to kMaxKl, but keeps a gradient
/// above it.
struct KlEstimator : config::Option {
  torch::Tensor (*estimate)(const KlLogRatios&) = nullptr;
};

torch::Tensor kl_penalty(const ObjectiveTokens& tokens, const KlEstimator& estimator);

/// Holds the denominators of the whole mini-batch over all ranks.
struct Denominators {
  std::int64_t tokens = 0;
  std::int64_t sequences = 0;
  std::int64_t max_response_length = 0;
};

/// Returns each token's share, float64 [M]. Σ_t share_t·x_t over all micro-batches and ranks is
///   token-mean                Σx / tokens                         (DAPO, eq. 8)
///   token-sum                 Σx
///   seq-mean-token-sum        mean over sequences of Σ_t x
///   seq-mean-token-mean       mean over sequences of mean_t x     (GRPO, eq. 3)
///   seq-mean-token-sum-norm   mean over sequences of Σ_t x / max_response_length   (Dr. GRPO)
torch::Tensor token_shares(LossAggMode mode, const Sequences& sequences, const Denominators& denominators);

struct ObjectiveSettings {
  const PolicyLoss* loss = nullptr;
  const Correction* method = nullptr;
  SurrogateSettings surrogate;
  CorrectionSettings correction;
  double weight_scale = 1;
  RejectionSettings rejection;
  SelectionSettings selection;
  bool behaviour_in_ratio = false;
  bool is_first_update = false;  ///< whether the weights are those that sampled
  LossAggMode loss_agg_mode = LossAggMode::seq_mean_token_mean;
  double kl_loss_coef = 0;
  const KlEstimator* kl = nullptr;
  double entropy_coef = 0;

  /// Returns whether ratio and bound are relative to the sampler's policy, not to π_old.
  bool is_around_sampler() const { return behaviour_in_ratio || loss->around_sampler; }
};

/// Throws an internal error if a needed option is null.
ObjectiveSettings objective_settings(const LossOptions& options);

/// Holds a micro-batch's shares of the mini-batch's loss terms (scalars), and values per token.
struct Objective {
  torch::Tensor policy, kl;  ///< kl is undefined without kl_loss_coef
  torch::Tensor total;       ///< policy + kl_loss_coef·kl − entropy_coef·entropy
  Surrogate surrogate;
  CorrectionWeights weights;
  torch::Tensor truncation;  ///< r_t, [M] (truncation_factor); undefined without acr
  Kept kept;
  Selected selected;
};

/// Aggregates −weight_t·J_t over the tokens that are both kept and selected. Aggregates KL penalty and entropy over all
/// tokens.
Objective objective(const ObjectiveTokens& tokens, const ObjectiveSettings& settings, const Denominators& denominators);

}  // namespace qrl::learner
