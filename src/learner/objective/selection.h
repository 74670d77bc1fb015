// Owns the selection of tokens for the policy term. Omitted tokens stay in the denominators. KL and entropy terms cover
// all tokens.
#pragma once

#include <span>

#include "dist/collectives.h"
#include "learner/objective/policy_losses.h"
#include "learner/objective/tokens.h"
#include "learner/options.h"
#include "types/batch.h"

namespace qrl::learner {

struct SelectionSettings {
  std::optional<double> off_policy_mask_threshold;
  TokenSelection of_batch;  ///< LossOptions::selection
};

struct Selected {
  torch::Tensor tokens;                  ///< [M]: selected tokens; undefined if all are
  torch::Tensor masked_sequences;        ///< [S]: sequences that the off-policy mask acts on; undefined without it
  torch::Tensor low_entropy, covariant;  ///< [M] each: tokens omitted by top entropy and by Clip-Cov; undefined if off
};

/// Omits tokens:
/// - off-policy mask (DeepSeek-V3.2, eq. 9): tokens with A < 0 in sequences with mean_t log(μ/π_θ) > δ;
/// - top entropy (Wang et al. 2025): tokens with an entropy below the mini-batch's floor;
/// - Clip-Cov (Cui et al. 2025, eq. 11): tokens with (A − Ā)(log π_old − mean log π_old) strictly within (low, high)
///   and a draw within the mini-batch's limit. Never omits `clipped` tokens (bool [M]), whose gradient the clip stops.
///
/// A token's draw is a hash of its log-prob, entropy and advantage, independent of packing and ranks. Equal draws are
/// ordered by rank and position.
Selected select_tokens(const ObjectiveTokens& tokens, const torch::Tensor& clipped, const SelectionSettings& settings);

/// Returns whether the selection needs statistics of the whole mini-batch.
bool selects_by_mini_batch(const AlgorithmOptions& algorithm);

/// Computes the statistics over all ranks' micro-batches, which need old log-probs and old entropies. Collective.
TokenSelection selection_of_mini_batch(std::span<const types::MicroBatch* const> batches,
                                       const AlgorithmOptions& algorithm, dist::Collectives& world);

/// Holds the settings of rejection sampling (CorrectionOptions), with defaults filled in.
struct RejectionSettings {
  RsLevel level = RsLevel::none;
  RsStat stat = RsStat::k1;
  double threshold = 0, threshold_low = 0;  ///< k1: bounds of exp(statistic); k2, k3: `threshold` bounds the statistic
  double veto = 0;                          ///< sequences with any ρ_t below this are rejected; 0: off
};

struct Kept {
  torch::Tensor tokens;  ///< [M]: tokens not rejected; undefined if rejection is off
  torch::Tensor vetoed;  ///< [S]: sequences that the veto rejected; undefined without a veto
};

/// Rejects tokens by a statistic of ρ_t, in addition to a correction's weights. The statistic is a token's own value,
/// or the sum, mean or maximum of its sequence's values. Values have veRL's names:
/// - k1: log ρ_t. Tokens are kept if exp(statistic) is within [threshold_low, threshold].
/// - k2: (log ρ_t)²/2, and k3: ρ_t − 1 − log ρ_t. Tokens are kept if the statistic is at most threshold.
///
/// The caller passes `log_rho` [M] detached and clamped to ±20. A sequence's sum for k1 is also clamped to ±20.
Kept kept_tokens(const torch::Tensor& log_rho, const Sequences& sequences, const RejectionSettings& settings);

}  // namespace qrl::learner
