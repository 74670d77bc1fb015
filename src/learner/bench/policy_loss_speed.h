#pragma once

#include <span>

#include "dist/collectives.h"
#include "learner/learner.h"
#include "types/batch.h"

namespace qrl::learner {

/// Returns the seconds of prepare_mini_batch, the objective, its gradient by the log-probs, and the statistics.
/// `batches` hold the sampler's log-probs, from which the others are made. Collective if needs_whole_mini_batch.
double measure_policy_loss(std::span<const types::MicroBatch> batches, const types::GlobalCounts& counts,
                           LossOptions loss, dist::Collectives& world);

}  // namespace qrl::learner
