// Owns one optimizer update of the policy by the recipe's loss.
#pragma once

#include "train/batch_builder.h"
#include "train/checkpoint.h"

namespace qrl::train {

class PolicyUpdater {
 public:
  /// `loss`: the run's. All arguments outlive it.
  PolicyUpdater(const RunSetup& setup, const learner::LossOptions& loss, learner::Learner& learner, RunState& state)
      : setup_(setup), loss_(loss), learner_(learner), state_(state) {}

  /// Runs forward, backward and the optimizer's update on a mini-batch; returns the update's metrics. A finite update
  /// makes the next policy version; too many that are not end the run (guards.h). `at_sampling_weights`: the present
  /// weights sampled the batch. Collective.
  Metrics update(const MiniBatch& batch, bool at_sampling_weights);

  /// Gives back GPU memory that is only kept for the next micro-batch, when rollout.free_cache_engine.
  void release_memory();

 private:
  const RunSetup& setup_;
  const learner::LossOptions& loss_;
  learner::Learner& learner_;
  RunState& state_;
};

}  // namespace qrl::train
