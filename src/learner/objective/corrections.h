// Owns every correction: detached weights for the gap between sampler and learner. Each is a pure function with a word,
// in a file with its paper's equation.
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

/// A correction's settings, with defaults filled in.
struct CorrectionSettings {
  double threshold = 0, threshold_low = 0;
  bool drop = false;  ///< whether a sequence outside its band gets weight 0, not the band's bound
  bool acr = false;   ///< whether truncation_factor raises the upper clip bound (QuRL's adaptive clipping range)
  double blend = 0;   ///< LossOptions::blend, of the whole mini-batch
};

/// Holds weights of the tokens' surrogates, [M]. A rejected token has weight 0 and stays in the denominators (chosen by
/// this project).
struct CorrectionWeights {
  torch::Tensor on_tokens;
  torch::Tensor acted;       ///< bool [M]: capped, clipped or rejected
  torch::Tensor sequence_w;  ///< [S]: w_i before a band on sequences; else undefined
  bool rejects = false;      ///< whether acting means weight 0
};

enum class CorrectionLevel : std::uint8_t { none, token, sequence };

struct Correction : config::Option {
  CorrectionLevel level = CorrectionLevel::none;
  /// Returns the weights. `log_rho` [M]: log ρ_t = log π_old − log μ, clamped to ±20 and detached; ρ_t = exp(log ρ_t).
  CorrectionWeights (*weights)(const torch::Tensor& log_rho, const Sequences&, const CorrectionSettings&) = nullptr;
  /// Reads the correction's own keys; null: none.
  void (*read_own)(const config::ParamValues&, CorrectionSettings&) = nullptr;
  AddStatistics add_statistics = nullptr;
  /// Sets LossOptions::blend from all response tokens of the mini-batch on all ranks, and returns its metrics.
  /// Collective. Null unless the whole mini-batch is needed.
  Metrics (*prepare)(std::span<const types::MicroBatch* const> batches, LossOptions&, dist::Collectives&) = nullptr;
};

/// Returns the constraints of every correction: behaviour_in_ratio, rollout_correction.threshold with `own_cap` (the
/// sentence that names it), threshold_low with `one_bound`.
std::vector<config::Constraint> constraints_of_correction(std::string_view own_cap, bool one_bound);

/// Computes TIS's truncation of a token's weight, r_t = min(1, C/ρ_t) = μ/μ_trunc with μ_trunc = max(μ, π_old/C) (QuRL,
/// eq. 7). ACR multiplies the upper clip bound by 1/r_t (eq. 9).
torch::Tensor truncation_factor(const torch::Tensor& log_rho, double threshold);

}  // namespace qrl::learner
