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
  torch::Tensor masked_sequences;        ///< [S]: sequences that the off-policy mask omits; undefined without one
  torch::Tensor low_entropy, covariant;  ///< [M]: tokens that top entropy and Clip-Cov omit; undefined without them
};

/// `clipped` [M], bool: tokens whose gradient the surrogate's clip stops; Clip-Cov does not count them.
/// off-policy mask (DeepSeek-V3.2, eq. 9): all tokens of a sequence where A < 0 and mean_t log(μ/π_θ) > δ
/// top entropy (Wang et al. 2025): tokens whose entropy is below the floor of the mini-batch
/// Clip-Cov (Cui et al. 2025, eq. 11): tokens with (A − Ā)(log π − mean log π) strictly within (low, high) whose draw
/// is within the limit of the mini-batch. A token's draw is a hash of its log-prob, entropy and advantage, independent
/// of packing and ranks; equal draws are ordered by rank and position. log π is π_old's (chosen here, like the draw).
Selected select_tokens(const ObjectiveTokens& tokens, const torch::Tensor& clipped, const SelectionSettings& settings);

/// Returns whether the recipe selects by statistics of the whole mini-batch.
bool selects_by_mini_batch(const AlgorithmOptions& algorithm);

/// Computes the statistics over all ranks' micro-batches, which need old log-probs and old entropies. Collective.
TokenSelection selection_of_mini_batch(std::span<const types::MicroBatch* const> batches,
                                       const AlgorithmOptions& algorithm, dist::Collectives& world);

struct Kept {
  torch::Tensor tokens;  ///< [M]; undefined when nothing can be rejected
  torch::Tensor vetoed;  ///< [S], sequences that the veto rejected; undefined without one
};

/// Selects tokens by how far old policy and sampler disagree, in addition to a correction's weights. Statistics have
/// veRL's names, per token, or as sum, mean or largest over the sequence:
/// - k1: log ρ_t, kept if its exp is within [threshold_low, threshold];
/// - k2: (log ρ_t)²/2, and k3: ρ_t − 1 − log ρ_t, kept if at most threshold.
///
/// `log_rho` [M] is clamped to ±20 and detached; a sum is also clamped.
Kept kept_tokens(const torch::Tensor& log_rho, const Sequences& sequences, const RejectionSettings& settings);

}  // namespace qrl::learner
