// Owns the objectives as pure functions of per-token tensors (M counted tokens each, any float dtype). Knows neither
// models nor batches. All are to be minimised.
#pragma once

#include <torch/torch.h>

#include "config/recipe.h"

namespace qrl::learner {

/// Log-ratios are clamped to ±kMaxLogRatio before exp; the gradient is 0 where the clamp acts.
inline constexpr double kMaxLogRatio = 20;
/// KL estimates are clamped to ±kMaxKl.
inline constexpr double kMaxKl = 10;

/// exp(clamp(log_p − log_q, ±20)).
torch::Tensor probability_ratio(const torch::Tensor& log_p, const torch::Tensor& log_q);

/// The clip range of a policy ratio, [1 − low, 1 + high].
struct ClipRange {
  double low = 0.2, high = 0.2;
};

/// −min(R·A, clip(R, 1−ε_l, 1+ε_h)·A) per token: GRPO (Shao et al. 2024, "DeepSeekMath", eq. 3) after PPO
/// (Schulman et al. 2017, eq. 7).
torch::Tensor clipped_policy_loss(const torch::Tensor& ratio, const torch::Tensor& advantages, const ClipRange& clip);

/// Estimates of KL(π_θ ‖ π_ref) per token (Schulman 2020, "Approximating KL divergence"): with k1 = log π_θ − log π_ref
/// clamped to ±20: k1; k2 = k1²/2; k3 = e^(−k1) + k1 − 1 (DeepSeekMath eq. 4); each clamped to ±10.
torch::Tensor kl_penalty(const torch::Tensor& log_p, const torch::Tensor& log_reference, config::KlType type);

/// Weight of each token in a seq-mean-token-mean: 1/(its sequence's counted tokens · num_sequences), float64 [M].
/// sequence_of_token: int64 [M], in [0, sequences of this micro-batch); num_sequences: of the whole mini-batch on all
/// ranks, so that partial sums over micro-batches add up to the mean.
torch::Tensor seq_mean_token_mean_weights(const torch::Tensor& sequence_of_token, std::int64_t num_sequences);

}  // namespace qrl::learner
