#pragma once

#include "learner/learner.h"
#include "train/checkpoint/checkpoint.h"
#include "train/recipe/recipe.h"
#include "train/step/batch_builder.h"

namespace qrl::train {

class PolicyUpdater {
 public:
  /// Arguments must outlive the object.
  PolicyUpdater(const RunContext& run, const learner::LossOptions& loss, learner::Learner& learner, RunState& state)
      : run_(run), loss_(loss), learner_(learner), state_(state) {}

  /// Updates the policy with a mini-batch and returns the metrics. A finite update makes the next policy version;
  /// guard_finite handles non-finite ones. `at_sampling_weights`: the batch was sampled at the current weights.
  /// Collective.
  Metrics update(const MiniBatch& batch, bool at_sampling_weights);

  /// With rollout.free_cache_engine, frees the learner's cached memory.
  void release_memory();

 private:
  const RunContext& run_;
  const learner::LossOptions& loss_;
  learner::Learner& learner_;
  RunState& state_;
};

/// Counts consecutive skipped (non-finite) updates in `state`. Ends the run after too many (exit 3).
void guard_finite(const learner::UpdateReport& report, const Recipe& recipe, RunState& state);

}  // namespace qrl::train
