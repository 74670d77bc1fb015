// Owns a learner's parts, for learner.cpp and learner_state.cpp alone.
#pragma once

#include <memory>
#include <optional>

#include "learner/engine/forward_engine.h"
#include "learner/forward/packed_rows.h"
#include "learner/objective/statistics.h"
#include "learner/options.h"
#include "learner/update/optimizer.h"
#include "learner/weights/parameters.h"
#include "learner/weights/reference.h"
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

struct LearnerParts {
  LearnerParts(const model::ModelConfig& config_in, const model::WeightSource& initial,
               const LearnerOptions& options_in, dist::Collectives& world_in, std::unique_ptr<ForwardEngine> engine_in);
  void require_trainable() const;
  /// Restarts from masters and moments written from outside.
  void restart(std::int64_t updates);
  bool holds_present_weights() const { return published != nullptr && published->version() == published_version; }
  /// Scores targets, differentiable unless autograd is off. rows and targets must outlive the backward pass. is_last:
  /// the mini-batch's last.
  TargetScores score(const PackedRows& rows, const TargetRows& targets, bool is_last,
                     const PolicyWeights* policy = nullptr);
  /// Computes loss and gradients of the micro-batch in flight, if any, with autograd on.
  void finish_micro_batch();
  model::WeightSource trained_masters();  ///< of all ranks; collective when sharded

  model::ModelConfig config;
  LearnerOptions options;
  dist::Collectives& world;
  model::WeightSource base;  ///< of adapters
  std::unique_ptr<ForwardEngine> engine;
  Parameters parameters;
  std::unique_ptr<RankTensors> ranks;
  GradientSums sums;
  MicroBatchPacker packer;
  std::unique_ptr<MicroBatchInFlight> in_flight;
  std::int64_t num_updates = 0;
  const model::Snapshot* published = nullptr;  ///< null: not since the masters last changed
  std::int64_t published_version = -1;
  bool keeps_reference = false;
  std::optional<model::WeightSource> reference_start;
  std::unique_ptr<ReferencePolicy> reference;
  const model::Snapshot* has_base = nullptr;  ///< the snapshot that `base` was published into
  Statistics statistics;
  bool loss_is_finite = true;
};

}  // namespace qrl::learner
