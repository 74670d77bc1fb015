#pragma once

#include <span>

#include "dist/collectives.h"
#include "learner/learner.h"
#include "types/batch.h"

namespace qrl::learner {

/// Returns the total seconds of prepare_mini_batch, the objective, its gradient with respect to the log-probs, and the
/// statistics. `batches` must hold the sampler's log-probs; the function makes up the other log-probs. Collective if
/// needs_whole_mini_batch.
double measure_policy_loss(std::span<const types::MicroBatch> batches, const types::GlobalCounts& counts,
                           LossOptions loss, dist::Collectives& world);

}  // namespace qrl::learner
