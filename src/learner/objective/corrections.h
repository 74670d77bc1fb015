// Owns the weights that correct for the gap between sampler and learner, as pure functions, one file a family. All are
// detached. Knows no loss.
#pragma once

#include <torch/torch.h>

#include <optional>

#include "config/recipe.h"
#include "learner/objective/tokens.h"

namespace qrl::learner {

/// A method's settings, with no defaults left open.
struct CorrectionSettings {
  config::CorrectionMethod method = config::CorrectionMethod::tis;
  double threshold = 2, threshold_low = 0;  ///< the method's; tbpo and ais: C = threshold
  bool drop = false;                        ///< tbpo: mismatch_action drop
  bool acr = false;
  double ais_alpha = 0;  ///< ais: α of the mini-batch (learner/objective/ais.h)
};

/// Weights on the tokens' surrogates, [M]. A token that is rejected has weight 0 and stays in the denominators (our
/// choice).
struct CorrectionWeights {
  torch::Tensor on_tokens;
  torch::Tensor acted;       ///< bool [M]: capped, clipped or rejected
  torch::Tensor sequence_w;  ///< tbpo: w_i before its band, [S]; else undefined
  bool rejects = false;      ///< what acting means: weight 0
};

/// `log_rho` [M]: log ρ_t = log π_old − log μ, clamped to ±20 and detached. Below, ρ_t = exp(log ρ_t).

/// 1.
CorrectionWeights no_correction(const torch::Tensor& log_rho, const Sequences&, const CorrectionSettings&);
/// min(ρ_t, C) (Yao et al. 2025, FlashRL: truncated importance sampling per token).
CorrectionWeights truncated_importance(const torch::Tensor& log_rho, const Sequences&, const CorrectionSettings&);
/// ρ_t where threshold_low ≤ ρ_t ≤ threshold, else 0 (Ling team 2025, IcePop; thresholds 0.5 and 5).
CorrectionWeights icepop(const torch::Tensor& log_rho, const Sequences&, const CorrectionSettings&);
/// 1 + α·(min(ρ_t, C) − 1) (AIS: interpolation between no correction and truncated importance sampling).
CorrectionWeights adaptive_importance(const torch::Tensor& log_rho, const Sequences&, const CorrectionSettings&);

/// Π ρ_t of the sequence on each of its tokens where that is at most `threshold`, else 0 (masked importance sampling;
/// threshold 3: our choice). The sum of log ρ_t is clamped to ±20 too.
CorrectionWeights mis_prod(const torch::Tensor& log_rho, const Sequences&, const CorrectionSettings&);
/// 1 where threshold_low ≤ exp(mean_t log ρ_t) ≤ threshold, else 0 (thresholds 0.999 and 1.001: our choice).
CorrectionWeights mis_geo(const torch::Tensor& log_rho, const Sequences&, const CorrectionSettings&);
/// w_i = exp(mean_t log ρ_t); clip(w_i, 1/C, C) (QaRL §4: "truncate with a two-sided cap"), or with `drop` w_i inside
/// and 0 outside (the same paper's "drop entire responses"). That clipping is the default is our choice.
CorrectionWeights trust_band_weights(const torch::Tensor& log_rho, const Sequences&, const CorrectionSettings&);

/// What TIS's truncation takes off a token's weight, r_t = min(1, C/ρ_t) = μ/μ_trunc with μ_trunc = max(μ, π_old/C)
/// (QuRL, eq. 7); ACR multiplies the upper clip bound by 1/r_t (eq. 9).
torch::Tensor truncation_factor(const torch::Tensor& log_rho, double threshold);

}  // namespace qrl::learner
