// Owns how the parts of an RL run are put together.
#pragma once

#include "train/trainer.h"

namespace qrl::train {

/// Holds the parts of an RL run, made in their order. The sampler has the present weights, which were found to agree
/// with the learner's.
struct Training {
  /// All references outlive it. `unfinished_row`: of state.step, when its evaluation is due.
  Training(const RunSetup& setup, RunState& state, learner::Learner& learner, learner::Learner* reference,
           QuantizerState& quantizer, MetricsFile& metrics, Metrics unfinished_row, Checkpointer& checkpointer);

  /// Trains to the last step (Trainer::train), on rollouts of `source`.
  void train(RolloutSource& source);
  void train() { train(rollouts); }

  const RunSetup& setup;
  RunState& state;
  learner::Learner& learner;
  Checkpointer& checkpointer;
  const learner::LossOptions loss;  ///< the recipe's words, resolved once
  Sampler sampler;
  SamplingSource rollouts;
  BatchBuilder batches;
  PolicyUpdater updater;
  WeightPublisher publisher;
  HeldOutEvaluation held_out;
  StepRecorder recorder;
};

}  // namespace qrl::train
