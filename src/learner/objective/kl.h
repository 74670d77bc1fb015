// Owns the penalty that holds a policy near its reference: its estimators, and the words that select them. Pure.
#pragma once

#include "config/choice.h"
#include "learner/torch.h"

namespace qrl::learner {

/// KL estimates are clamped to ±kMaxKl.
inline constexpr double kMaxKl = 10;

/// A word of algorithm.kl_loss_type: an estimator of KL(π_θ ‖ π_ref) per token (Schulman 2020, "Approximating KL
/// divergence").
struct KlEstimator : config::Choice {
  /// `k1` [M]: log π_θ − log π_ref, clamped to ±20.
  torch::Tensor (*estimate)(const torch::Tensor& k1) = nullptr;
};

/// The estimate of each token, [M], clamped to ±kMaxKl.
torch::Tensor kl_penalty(const torch::Tensor& log_p, const torch::Tensor& log_reference, const KlEstimator& estimator);

}  // namespace qrl::learner
