#pragma once

#include <vector>

#include "learner/learner.h"
#include "train/step/rollout_source.h"

namespace qrl::train {

/// Holds this rank's micro-batches of a mini-batch, and loss denominators over all ranks.
struct MiniBatch {
  std::vector<types::MicroBatch> micro;
  std::vector<types::MicroBatch> scored_only;  ///< micro-batches with advantage 0, used only for mini-batch statistics
  types::GlobalCounts counts;
};

class BatchBuilder {
 public:
  /// `reference`: the frozen initial policy; null without algorithm.kl_loss_coef, or if `learner` holds it. Arguments
  /// must outlive the object.
  BatchBuilder(const RunContext& run, const learner::LossOptions& loss, learner::Learner& learner,
               learner::Learner* reference);

  /// Returns the mini-batches, with old and reference log-probs if the recipe needs them. `at_sampling_weights`: the
  /// learner still has the weights that sampled. Collective.
  std::vector<MiniBatch> build(const StepGroups& groups, bool at_sampling_weights, PhaseSeconds& seconds);

 private:
  std::vector<MiniBatch> pack(const StepGroups& groups) const;
  void add_frozen_logprobs(types::MicroBatch& micro, bool at_sampling_weights, PhaseSeconds& seconds);
  void add_old_logprobs(types::MicroBatch& micro, bool at_sampling_weights, PhaseSeconds& seconds);
  void follow_teacher(types::MicroBatch& micro) const;

  const RunContext& run_;
  const learner::LossOptions& loss_;
  learner::Learner& learner_;
  learner::Learner* reference_;
};

}  // namespace qrl::train
