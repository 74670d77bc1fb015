// Owns how a step's groups become the learner's mini-batches, with the log-probs that stay frozen over the step's
// updates.
#pragma once

#include <vector>

#include "learner/learner.h"
#include "train/rollout_source.h"

namespace qrl::train {

/// Holds one optimizer mini-batch: this rank's micro-batches and the denominators over all ranks.
struct MiniBatch {
  std::vector<types::MicroBatch> micro;
  std::vector<types::MicroBatch>
      scored_only;  ///< advantage 0: in statistics over the whole mini-batch, not in the loss
  types::GlobalCounts counts;
};

class BatchBuilder {
 public:
  /// `reference`: the frozen initial policy, null unless algorithm.kl_loss_coef is set, or where
  /// the learner itself has it. `loss`: the run's. All
  /// arguments outlive it.
  BatchBuilder(const RunSetup& setup, const learner::LossOptions& loss, learner::Learner& learner,
               learner::Learner* reference);

  /// Returns the step's mini-batches with old and reference log-probs where the recipe needs them.
  /// `at_sampling_weights`: the learner has the weights that sampled. Collective.
  std::vector<MiniBatch> build(const StepGroups& groups, bool at_sampling_weights, PhaseSeconds& seconds);

 private:
  std::vector<MiniBatch> pack(const StepGroups& groups) const;
  void add_frozen_logprobs(types::MicroBatch& micro, bool at_sampling_weights, PhaseSeconds& seconds);
  void follow_teacher(types::MicroBatch& micro) const;

  const RunSetup& setup_;
  const learner::LossOptions& loss_;
  learner::Learner& learner_;
  learner::Learner* reference_;
};

}  // namespace qrl::train
