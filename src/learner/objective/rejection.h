// Owns rejection beside a correction's weights: which tokens are kept by how far the learner's old policy and the
// sampler disagree about them or their sequence. Pure.
#pragma once

#include "config/recipe.h"
#include "learner/objective/tokens.h"

namespace qrl::learner {

/// rollout_correction.rs and its keys, with no defaults left open.
struct RejectionSettings {
  config::RsLevel level = config::RsLevel::none;
  config::RsStat stat = config::RsStat::k1;
  double threshold = 0, threshold_low = 0;  ///< bounds of exp(statistic) for k1; k2 and k3 have the upper one alone
  double veto = 0;                          ///< a sequence with a ρ_t below this is rejected; 0: none
};

/// What was kept, bool.
struct Kept {
  torch::Tensor tokens;  ///< [M]; undefined when nothing can be rejected
  torch::Tensor vetoed;  ///< [S], sequences that the veto rejected; undefined without one
};

/// By veRL's words, of each token or by the sum, mean or largest of its sequence's tokens:
///   k1  log ρ_t, kept where exp of it is within [threshold_low, threshold]
///   k2  (log ρ_t)²/2 and k3  ρ_t − 1 − log ρ_t, kept where at most threshold.
/// `log_rho` [M] as for a correction: clamped to ±20 and detached; a sum is clamped so too.
Kept kept_tokens(const torch::Tensor& log_rho, const Sequences& sequences, const RejectionSettings& settings);

}  // namespace qrl::learner
