// Declares the corrections: detached token weights for the gap between sampler and learner, selected by
// rollout_correction.method.
#pragma once

#include <cstdint>
#include <span>

#include "dist/collectives.h"
#include "learner/objective/policy_losses.h"
#include "learner/objective/tokens.h"
#include "learner/options.h"
#include "learner/tensors/torch.h"
#include "types/batch.h"

namespace qrl::learner {

struct CorrectionSettings {
  double threshold = 0, threshold_low = 0;
  bool drop = false;  ///< whether a sequence weight outside the band becomes 0, not the band's bound
  bool acr = false;   ///< whether truncation_factor raises the upper clip bound (QuRL's adaptive clipping range)
  double blend = 0;   ///< LossOptions::blend
};

/// Holds the factors of the tokens' surrogates, [M]. A rejected token has weight 0 and stays in the denominators.
struct CorrectionWeights {
  torch::Tensor on_tokens;
  torch::Tensor acted;       ///< bool [M]: tokens whose weight was capped, clipped or rejected
  torch::Tensor sequence_w;  ///< [S]: w_i before the band is applied; undefined without a band
  bool rejects = false;      ///< whether the tokens in `acted` have weight 0
};

enum class CorrectionLevel : std::uint8_t { none, token, sequence };

struct Correction : config::Option {
  CorrectionLevel level = CorrectionLevel::none;
  /// Returns the weights. `log_rho` [M]: log ρ_t = log π_old − log μ, clamped to ±20 and detached; ρ_t = exp(log ρ_t).
  CorrectionWeights (*weights)(const torch::Tensor& log_rho, const Sequences&, const CorrectionSettings&) = nullptr;
  /// Reads the correction's own keys into the settings. The pointer is null if the correction declares none.
  void (*read_own)(const config::ParamValues&, CorrectionSettings&) = nullptr;
  AddStatistics add_statistics = nullptr;
  /// Sets LossOptions::blend from the mini-batch's response tokens on all ranks, and returns metrics. Null if the
  /// weights need no statistics of the mini-batch. Collective.
  Metrics (*prepare)(std::span<const types::MicroBatch* const> batches, LossOptions&, dist::Collectives&) = nullptr;
};

/// Returns the constraints that corrections share: behaviour_in_ratio must be false. `own_cap` is empty, or a sentence
/// that names the correction's own cap; then threshold and threshold_low must be null. With `one_bound`, threshold_low
/// must be null.
std::vector<config::Constraint> constraints_of_correction(std::string_view own_cap, bool one_bound);

/// Computes TIS's truncation of a token's weight, r_t = min(1, C/ρ_t) = μ/μ_trunc with μ_trunc = max(μ, π_old/C) (QuRL,
/// eq. 7). ACR multiplies the upper clip bound by 1/r_t (eq. 9).
torch::Tensor truncation_factor(const torch::Tensor& log_rho, double threshold);

}  // namespace qrl::learner
