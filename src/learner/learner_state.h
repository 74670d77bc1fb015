// Owns access by name to a learner's memory, for checkpoints, exports and tests. Free of LibTorch.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/buffer.h"
#include "model/weights.h"

namespace qrl::learner {

class GradientAccumulator;  // update/gradient_accumulator.h
class Optimizer;            // update/optimizer.h
class Publisher;            // engine/publisher.h
class TrainableWeights;     // weights/trainable_weights.h

/// Gives access to a learner's masters, moments and gradients (Learner::state); the learner must outlive it.
class LearnerState {
 public:
  LearnerState(TrainableWeights& weights, GradientAccumulator& accumulator, Optimizer& optimizer, Publisher& publisher)
      : weights_(weights), accumulator_(accumulator), optimizer_(optimizer), publisher_(publisher) {}

  /// Returns this rank's fp32 masters by name, as views in place, valid for the learner's life.
  model::WeightViews masters() const;
  /// Returns likewise "exp_avg.<tensor>" (Muon's momentum included) and "exp_avg_sq.<tensor>" (without Muon's
  /// matrices). Empty if not trainable.
  model::WeightViews moments() const;
  /// Returns likewise all gradients accumulated before `update`, for tests.
  model::WeightViews gradients() const;
  state::StagedRead staged_read() const;

  /// Returns this rank's fp32 master, or with adapters the base's weight; empty if another rank's.
  base::Buffer master(const std::string& name) const;
  /// Returns a source of all ranks' masters, read by all in the same order, merged with adapters (merged_weights).
  /// Collective when sharded.
  model::WeightSource all_masters() const;

  /// Has masters, then moments written to host memory, a tensor at a time (NamedState::fill), and sets the update
  /// count. The order is the same on every rank unless sharded. Collective when sharded.
  void restore(const std::function<void(const std::string& name, const base::View& to)>& fill,
               std::int64_t num_updates);
  /// Frees the moments' memory: neither update nor checkpoint may follow.
  void free_moments();

 private:
  TrainableWeights& weights_;
  GradientAccumulator& accumulator_;
  Optimizer& optimizer_;
  Publisher& publisher_;
};

}  // namespace qrl::learner
