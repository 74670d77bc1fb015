// Owns the weights that correct for the gap between sampler and learner. Knows no loss.
#pragma once

#include <torch/torch.h>

#include "config/recipe.h"

namespace qrl::learner {

inline constexpr double kDefaultTisThreshold = 2;

/// Truncation threshold C of a recipe's correction.
double tis_threshold(const config::CorrectionRecipe& correction);

/// Weight on each token's surrogate, detached: none: 1; tis: min(ρ, C) with ρ = exp(clamp(log π_old − log μ, ±20))
/// (Yao et al. 2025, "Your efficient RL framework secretly brings you off-policy training": truncated importance
/// sampling per token). Log-probs of the drawn tokens [M] under the learner that drew and under the sampler.
torch::Tensor correction_weights(const torch::Tensor& old_log_probs, const torch::Tensor& sampler_log_probs,
                                 const config::CorrectionRecipe& correction);

}  // namespace qrl::learner
