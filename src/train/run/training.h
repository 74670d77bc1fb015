#pragma once

#include "train/policy/sampler.h"
#include "train/trainer.h"

namespace qrl::train {

/// An RL run's parts, made in order. The sampler has the current weights, and agrees with the learner.
struct Training {
  /// References must outlive the object. `unfinished_row`: the row of state.step, if its evaluation is due.
  Training(const RunContext& run, RunState& state, learner::Learner& learner, learner::Learner* reference,
           QuantizerState& quantizer, MetricsFile& metrics, Metrics unfinished_row, Checkpointer& checkpointer);

  /// Trains to the last step on rollouts of `source`.
  void train(RolloutSource& source);
  void train() { train(rollouts); }

  const RunContext& run;
  RunState& state;
  learner::Learner& learner;
  Checkpointer& checkpointer;
  Sampler sampler;
  SamplingSource rollouts;
  BatchBuilder batches;
  PolicyUpdater updater;
  WeightPublisher publisher;
  HeldOutEvaluation held_out;
  StepRecorder recorder;
};

}  // namespace qrl::train
