#pragma once

#include <memory>

#include "dist/collectives.h"
#include "learner/engine/publisher.h"
#include "learner/forward/packed_rows.h"
#include "learner/objective/route_statistics.h"
#include "learner/objective/statistics.h"
#include "learner/options.h"
#include "learner/update/optimizer.h"
#include "ops/sample.h"
#include "types/batch.h"

namespace qrl::learner {

/// Computes a mini-batch's gradients and statistics, one micro-batch at a time. On a device, a micro-batch's loss
/// and backward pass may wait until the next forward pass has started.
class GradientAccumulator {
 public:
  GradientAccumulator(TrainableWeights& weights, ForwardEngine& engine, const Publisher& publisher,
                      MicroBatchPacker& packer);
  ~GradientAccumulator();
  GradientAccumulator(const GradientAccumulator&) = delete;
  GradientAccumulator& operator=(const GradientAccumulator&) = delete;

  /// Implements Learner::accumulate.
  void add(const types::MicroBatch& batch, const types::GlobalCounts& counts, const LossOptions& loss,
           const ops::SampleParams& sample_params, bool is_last);
  /// Computes loss and gradients of the waiting micro-batch, if any. Autograd must be on.
  void finish();

  /// Returns this rank's gradients so far, rotated back (quantized.h).
  model::WeightViews gradients();

  struct MiniBatch {
    Metrics metrics;
    bool has_finite_losses = false;
  };
  /// Ends the mini-batch: calls finish(), then sums gradients over ranks. Autograd must be on. Collective.
  MiniBatch end();
  void restart();

 private:
  struct MicroBatchInFlight;
  Tensor loss_of(const MicroBatchInFlight& micro);

  TrainableWeights& weights_;
  ForwardEngine& engine_;
  const Publisher& publisher_;
  MicroBatchPacker& packer_;
  GradientSums sums_;
  std::unique_ptr<MicroBatchInFlight> in_flight_;
  Statistics statistics_;
  RouteStatistics routes_;
  bool loss_is_finite_ = true;
};

}  // namespace qrl::learner
