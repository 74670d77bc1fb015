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

/// Accesses a learner's masters, moments and gradients by name (Learner::state), for checkpoints, exports and tests.
/// The learner must outlive it.
class LearnerState {
 public:
  LearnerState(TrainableWeights& weights, GradientAccumulator& accumulator, Optimizer& optimizer, Publisher& publisher)
      : weights_(weights), accumulator_(accumulator), optimizer_(optimizer), publisher_(publisher) {}

  /// Returns this rank's fp32 masters by name, as views in place, valid as long as the learner.
  model::WeightViews masters() const;
  /// Returns views of "exp_avg.<tensor>" (including Muon's momentum) and "exp_avg_sq.<tensor>" (except Muon's
  /// matrices). Empty if not trainable.
  model::WeightViews moments() const;
  /// Returns views of all gradients accumulated before `update`, for tests.
  model::WeightViews gradients() const;
  state::StagedRead staged_read() const;

  /// Returns this rank's fp32 master, or with adapters the base's weight; empty if another rank has it.
  base::Buffer master(const std::string& name) const;
  /// Returns a source of all ranks' masters, merged with adapters (merged_weights). All ranks must read it in the same
  /// order. Collective when sharded.
  model::WeightSource all_masters() const;

  /// Calls `fill` to write the masters, then the moments, to host memory, one tensor at a time (NamedState::fill), and
  /// sets the update count. All ranks use the same order unless sharded. Collective when sharded.
  void restore(const std::function<void(const std::string& name, const base::View& to)>& fill,
               std::int64_t num_updates);
  /// Frees the moments' memory; afterwards neither update nor checkpoint is possible.
  void free_moments();

 private:
  TrainableWeights& weights_;
  GradientAccumulator& accumulator_;
  Optimizer& optimizer_;
  Publisher& publisher_;
};

}  // namespace qrl::learner
