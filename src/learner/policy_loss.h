// Owns the way from a packed micro-batch to the tensors of an objective, and from an objective to its statistics. Knows
// neither the forward pass nor any formula.
#pragma once

#include <vector>

#include "learner/learner.h"
#include "learner/logprob.h"
#include "learner/objective/objective.h"
#include "learner/statistics.h"
#include "types/batch.h"

namespace qrl::learner {

/// Computes the micro-batch's share of the mini-batch's loss by objective.h's formulas, fp64. It covers the counted
/// tokens (rows of `batch`) with their scores under the policy now. Adds its part of the metrics of algorithms.md.
/// Without old log-probs in the batch π_old is π_θ, detached. An invariant error names an array of another size than N.
torch::Tensor policy_loss(const types::MicroBatch& batch, const std::vector<std::int64_t>& rows,
                          const TargetScores& scores, const types::GlobalCounts& counts, const LossOptions& loss,
                          Statistics& statistics);

/// Rows of the tokens that count.
std::vector<std::int64_t> counted_rows(const types::MicroBatch& batch);
/// Returns their places in the caller's order of sequences: ascending within a rank's mini-batch, however it is packed.
std::vector<std::int64_t> positions_of(const types::MicroBatch& batch, const std::vector<std::int64_t>& rows);

/// Returns the masked-in entries (`rows`) of a per-token array as fp64. An invariant error names the array if its size
/// is not N.
std::vector<double> counted(const std::vector<float>& per_token, const std::vector<std::int64_t>& rows,
                            std::size_t num_tokens, const char* name);

}  // namespace qrl::learner
