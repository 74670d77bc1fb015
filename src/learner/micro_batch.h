// Owns a micro-batch between its forward pass and its loss. Knows no formula of a loss.
#pragma once

#include "learner/layers.h"
#include "learner/learner.h"
#include "learner/logprob.h"
#include "types/batch.h"

namespace qrl::learner {

/// What the loss and the backward pass of a micro-batch need of its forward pass. Stays where it is: the graph points
/// into rows and targets.
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
