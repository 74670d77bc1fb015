// Owns measuring what a loss costs beside the model whose log-probs it is of. Knows no recipe.
#pragma once

#include <span>

#include "dist/collectives.h"
#include "learner/learner.h"
#include "types/batch.h"

namespace qrl::learner {

/// Seconds that a mini-batch's loss takes once its log-probs are there: prepare_mini_batch, the objective, its gradient
/// with respect to them, and the statistics. `batches` hold the sampler's log-probs; those of π_old and π_θ are made
/// from them, up to 0.05 away, and are not timed. Collective where needs_whole_mini_batch.
double measure_policy_loss(std::span<const types::MicroBatch> batches, const types::GlobalCounts& counts,
                           LossOptions loss, dist::Collectives& world);

}  // namespace qrl::learner
