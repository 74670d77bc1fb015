#pragma once

#include "config/option.h"
#include "learner/objective/tokens.h"

namespace qrl::learner {

inline constexpr double kMaxKl = 10;

/// Holds log ratios of each token, [M], clamped to ±20; the clamp does not stop gradients.
struct KlLogRatios {
  torch::Tensor to_reference;  ///< x = log π_θ − log π_ref
  torch::Tensor to_sampler;    ///< log π_θ − log μ
};

/// Selects an estimator of KL(π_θ ‖ π_ref) per token by a word of algorithm.kl_loss_type: k1, k2, k3 (Schulman 2020,
/// "Approximating KL divergence"), k3+ (veRL) or unbiased (DeepSeek-V3.2, eq. 7). docs/reference/algorithms.md has
/// values and gradients. Clamps stop no gradient: above its largest value, k3 keeps its slope.
struct KlEstimator : config::Option {
  torch::Tensor (*estimate)(const KlLogRatios&) = nullptr;
};

torch::Tensor kl_penalty(const ObjectiveTokens& tokens, const KlEstimator& estimator);

}  // namespace qrl::learner
