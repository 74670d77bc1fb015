// Owns the penalty that holds a policy near its reference. Pure.
#pragma once

#include <torch/torch.h>

#include "config/recipe.h"

namespace qrl::learner {

/// KL estimates are clamped to ±kMaxKl.
inline constexpr double kMaxKl = 10;

/// Estimates of KL(π_θ ‖ π_ref) per token (Schulman 2020, "Approximating KL divergence"): with k1 = log π_θ − log π_ref
/// clamped to ±20: k1; k2 = k1²/2; k3 = e^(−k1) + k1 − 1 (DeepSeekMath eq. 4); each clamped to ±10.
torch::Tensor kl_penalty(const torch::Tensor& log_p, const torch::Tensor& log_reference, config::KlType type);

}  // namespace qrl::learner
