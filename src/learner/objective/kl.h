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

/// Selects an estimator of KL(π_θ ‖ π_ref) per token by a word of algorithm.kl_loss_type (Schulman 2020, "Approximating
/// KL divergence"):
/// k1 x. Its gradient is 0 in expectation, so the recipe's rules refuse it.
/// k2 x²/2. Its gradient, with the sampled tokens held fixed, is that of the KL in expectation.
/// k3 e^(−x) + x − 1, at most 10. Its gradient is that of KL(π_ref ‖ π_θ).
/// k3+ the value of k3, the gradient of k2 (veRL).
/// unbiased π_θ/μ·k3 with the gradient through the ratio (DeepSeek-V3.2, eq. 7): value and gradient of the KL,
/// for any gap to the sampler μ. Clamps stop no gradient: above its largest value, k3 keeps its slope.
struct KlEstimator : config::Option {
  torch::Tensor (*estimate)(const KlLogRatios&) = nullptr;
};

torch::Tensor kl_penalty(const ObjectiveTokens& tokens, const KlEstimator& estimator);

}  // namespace qrl::learner
