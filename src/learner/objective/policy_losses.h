// Owns the clipped surrogates as pure functions of the counted tokens, one file a family. Knows no correction's
// formula, no aggregation and no model.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>

#include "config/recipe.h"
#include "learner/objective/tokens.h"

namespace qrl::learner {

/// Why a token's ratio teaches nothing: where it lies beyond a bound that its advantage's sign makes act.
enum class ClipSide : std::uint8_t { none, high, low, negative_high, dual };

/// J of each token, [M], to be maximized. A sequence's surrogate stands on each of its tokens.
struct Surrogate {
  torch::Tensor objective;
  torch::Tensor side;   ///< uint8, ClipSide
  torch::Tensor ratio;  ///< detached: what was clipped
};

struct ClipRange {
  double low = 0.2, high = 0.2;  ///< ratios within [1 − low, 1 + high]
};

struct SurrogateSettings {
  ClipRange clip;                   ///< tbpo: where A ≥ 0
  ClipRange negative_clip;          ///< tbpo: where A < 0
  std::optional<double> dual_clip;  ///< c
  bool token_form = false;          ///< gspo: s_it instead of s_i
};

/// `log_ratio` [M]: log R_t = log π_θ − log π_old, clamped to ±20 (log π_θ − log μ with behaviour_in_ratio).
/// `upper_relief` [M] or undefined: a detached factor on 1 + ε_h (ACR's 1/r_t).
struct SurrogateInput {
  const ObjectiveTokens& tokens;
  torch::Tensor log_ratio;
  torch::Tensor upper_relief;
};

/// GRPO (Shao et al. 2024, "DeepSeekMath", eq. 3) after PPO (Schulman et al. 2017, eq. 7); Dr. GRPO (Liu et al. 2025)
/// and DAPO (Yu et al. 2025, eq. 8: ε_h > ε_l) differ in aggregation and settings alone:
///   J_t = min(R_t·A, clip(R_t, 1 − ε_l, (1 + ε_h)·relief_t)·A),
/// and with a dual clip (Ye et al. 2020, eq. 4), where A < 0: J_t ← max(J_t, c·A). QuRL's ACR (eq. 9) is relief =
/// 1/r_t.
Surrogate token_ratio_surrogate(const SurrogateInput& input, const SurrogateSettings& settings);

/// GSPO (Zheng et al. 2025, eq. 5 and 7): s_i = exp(mean_t log R_t), J_i = min(s_i·A, clip(s_i, 1 − ε_l, 1 + ε_h)·A).
/// Token form (eq. 13 ff.): log s_it = log R_t − sg(log R_t) + sg(log s_i): the same values, and the same gradient
/// while the weights on the tokens are equal.
Surrogate sequence_ratio_surrogate(const SurrogateInput& input, const SurrogateSettings& settings);

/// TBPO (QaRL, §4): r_i = s_i. A ≥ 0: min(r_i·A, clip(r_i, 1 − ε_l, 1 + ε_h)·A). A < 0: clip(r_i, 1 − ε⁻_l, 1 +
/// ε⁻_h)·A, whose gradient is 0 on both sides of its band. That A ≥ 0 is bounded above alone is our choice: the paper's
/// "mask out the entire responses when their ratio exceeds the bounds" could mean both sides.
Surrogate trust_band_surrogate(const SurrogateInput& input, const SurrogateSettings& settings);

}  // namespace qrl::learner
