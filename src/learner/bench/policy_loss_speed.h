// Owns measuring what a loss costs beside the model whose log-probs it is of. Knows no recipe.
#pragma once

#include <span>

#include "dist/collectives.h"
#include "learner/learner.h"
#include "types/batch.h"

namespace qrl::learner {

/// Measures the seconds of a mini-batch's loss from given log-probs: prepare_mini_batch, the objective, its gradient by
/// the log-probs, and the statistics. `batches` hold the sampler's log-probs. The log-probs of π_old and π_θ are made
/// from them, up to 0.05 away, and are not timed. Collective if needs_whole_mini_batch.
double measure_policy_loss(std::span<const types::MicroBatch> batches, const types::GlobalCounts& counts,
                           LossOptions loss, dist::Collectives& world);

}  // namespace qrl::learner
