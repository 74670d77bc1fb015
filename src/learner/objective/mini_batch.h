#pragma once

#include <span>
#include <string>
#include <vector>

#include "dist/collectives.h"
#include "learner/options.h"
#include "types/batch.h"

namespace qrl::learner {

/// Returns whether an update needs all response tokens and old log-probs before its first micro-batch.
bool needs_whole_mini_batch(const LossOptions& loss);
/// Returns whether an update also needs all entropies under the old policy (MicroBatch::old_entropy).
bool needs_old_entropy(const LossOptions& loss);
/// Sets loss.blend, weight_scale and selection from the mini-batch on all ranks. Returns metrics. `batches` are this
/// rank's micro-batches, with old log-probs. Collective.
Metrics prepare_mini_batch(std::span<const types::MicroBatch* const> batches, LossOptions& loss,
                           dist::Collectives& world);

/// Returns pointers into `batches`, which must outlive them.
std::vector<const types::MicroBatch*> pointers_to(std::span<const types::MicroBatch> batches);

std::vector<std::string> policy_metric_names(const LossOptions& loss);

}  // namespace qrl::learner
