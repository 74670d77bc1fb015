// Owns a micro-batch between its forward pass and its loss. Knows no formula of a loss.
#pragma once

#include "learner/layers.h"
#include "learner/learner.h"
#include "learner/logprob.h"
#include "types/batch.h"

namespace qrl::learner {

/// Holds a micro-batch's forward pass for its loss and backward pass. Cannot be moved: the graph points into rows and
/// targets.
struct MicroBatchInFlight {
  MicroBatchInFlight(const types::MicroBatch& batch_in, const types::GlobalCounts& counts_in,
                     const LossOptions& loss_in)
      : batch(batch_in), counts(counts_in), loss(loss_in) {}
  MicroBatchInFlight(const MicroBatchInFlight&) = delete;
  MicroBatchInFlight& operator=(const MicroBatchInFlight&) = delete;

  types::MicroBatch batch;
  types::GlobalCounts counts;
  LossOptions loss;
  PackedRows rows;
  TargetRows targets;
  TargetScores scores;
};

}  // namespace qrl::learner
