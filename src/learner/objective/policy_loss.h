#pragma once

#include <vector>

#include "learner/forward/logprob.h"
#include "learner/objective/objective.h"
#include "learner/objective/statistics.h"
#include "learner/objective/tokens.h"
#include "learner/options.h"
#include "types/batch.h"

namespace qrl::learner {

/// Computes the micro-batch's share of the loss in fp64 (objective.h). Adds its metrics to `statistics`. `rows`
/// are the indices of tokens in the loss; `scores` has one entry per row. If the batch has no old log-probs, π_old is
/// π_θ, detached. Throws an internal error that names a per-token array of the wrong size.
torch::Tensor policy_loss(const types::MicroBatch& batch, const std::vector<std::int64_t>& rows,
                          const TargetScores& scores, const types::GlobalCounts& counts, const LossOptions& loss,
                          Statistics& statistics);

}  // namespace qrl::learner
