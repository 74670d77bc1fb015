#pragma once

#include "learner/objective/tokens.h"
#include "learner/options.h"

namespace qrl::learner {

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
