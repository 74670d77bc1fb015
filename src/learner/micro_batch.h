// Owns a micro-batch between its forward pass and its loss.
#pragma once

#include "learner/layers.h"
#include "learner/logprob.h"
#include "learner/options.h"
#include "types/batch.h"

namespace qrl::learner {

/// Holds a forward pass for its loss and backward pass. Cannot be moved: the graph points into it.
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
