// Owns the policy's own selection of tokens: off-policy mask of sequences, most uncertain tokens, Clip-Cov. Omitted
// terms stay in the denominators. KL and entropy terms cover all tokens.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "dist/collectives.h"
#include "learner/objective/policy_losses.h"
#include "learner/options.h"
#include "types/batch.h"

namespace qrl::learner {

struct SelectionSettings {
  std::optional<double> off_policy_mask_threshold;
  TokenSelection of_batch;  ///< LossOptions::selection
};

struct Selected {
  torch::Tensor tokens;                  ///< [M]: what remains; undefined when all do
  torch::Tensor masked_sequences;        ///< [S], by the off-policy mask; undefined without one
  torch::Tensor low_entropy, covariant;  ///< [M], left out by these; undefined without them
};

/// `clipped` [M], bool: tokens that the surrogate's own clip leaves without a gradient, which Clip-Cov does not count.
///   off-policy mask (DeepSeek-V3.2, eq. 9): all tokens of a sequence where A < 0 and mean_t log(μ/π_θ) > δ
///   top entropy (Wang et al. 2025): tokens whose entropy is below the floor of the mini-batch
///   Clip-Cov (Cui et al. 2025, eq. 11): tokens with (A − Ā)(log π − mean log π) strictly within (low, high) whose draw
///     is within the limit of the mini-batch. A token's draw is a hash of its log-prob, entropy and advantage, so that
///     it depends neither on packing nor on ranks; of equal draws the first by rank and position are within, so that
///     the number is exact. log π is that of π_old (ours, as draw and order are).
Selected select_tokens(const ObjectiveTokens& tokens, const torch::Tensor& clipped, const SelectionSettings& settings);

/// Returns whether the recipe selects by statistics of the whole mini-batch.
bool selects_by_mini_batch(const AlgorithmOptions& algorithm);

/// Computes them over all ranks' micro-batches with old log-probs and old entropies. Collective.
TokenSelection selection_of_mini_batch(std::span<const types::MicroBatch* const> batches,
                                       const AlgorithmOptions& algorithm, dist::Collectives& world);

}  // namespace qrl::learner
