#pragma once

#include <cstdint>

#include "config/words.h"
#include "learner/objective/tokens.h"
#include "learner/tensors/torch.h"

namespace qrl::learner {

/// Holds the denominators of the whole mini-batch over all ranks. Partial counts add up.
struct Denominators {
  std::int64_t tokens = 0;               ///< counted response tokens
  std::int64_t sequences = 0;            ///< sequences with a counted response token
  std::int64_t max_response_length = 0;  ///< data.max_response_length
};

/// Returns each token's share, float64 [M]; Σ_t share_t·x_t over all micro-batches and ranks is
///   token-mean                Σx / tokens                         (DAPO, eq. 8)
///   token-sum                 Σx
///   seq-mean-token-sum        mean over sequences of Σ_t x
///   seq-mean-token-mean       mean over sequences of mean_t x     (GRPO, eq. 3)
///   seq-mean-token-sum-norm   mean over sequences of Σ_t x / max_response_length   (Dr. GRPO)
torch::Tensor token_shares(config::LossAggMode mode, const Sequences& sequences, const Denominators& denominators);

}  // namespace qrl::learner
