#pragma once

#include <vector>

#include "learner/forward/logprob.h"
#include "learner/objective/objective.h"
#include "learner/objective/statistics.h"
#include "learner/objective/tokens.h"
#include "learner/options.h"
#include "types/batch.h"

namespace qrl::learner {

/// Computes the micro-batch's share of the loss by objective.h's formulas, fp64, from scores of the counted tokens
/// (`rows` of `batch`). Adds the metrics of algorithms.md to `statistics`. Without old log-probs in the batch, π_old is
/// π_θ, detached. Throws an invariant error that names an array whose size is not N.
torch::Tensor policy_loss(const types::MicroBatch& batch, const std::vector<std::int64_t>& rows,
                          const TargetScores& scores, const types::GlobalCounts& counts, const LossOptions& loss,
                          Statistics& statistics);

}  // namespace qrl::learner
