#pragma once

#include <cstdint>

#include "train/checkpoint/checkpoint.h"
#include "train/evaluate/evaluate.h"
#include "train/policy/sampler.h"
#include "train/step/batch_builder.h"
#include "train/step/policy_updater.h"
#include "train/step/rollout_source.h"
#include "train/step/step_recorder.h"
#include "train/step/weight_publisher.h"

namespace qrl::train {

/// Owns the parts of an RL run, and runs its loop.
struct Trainer {
  /// References must outlive the object.
  Trainer(const RunContext& run, RunState& state, learner::Learner& learner, learner::Learner* reference,
          QuantizerState& quantizer, MetricsFile& metrics, Metrics unfinished_row, Checkpointer& checkpointer);

  /// Runs all remaining steps on rollouts of `source`; evaluates and commits when due. On a stop request, drops the
  /// current step's samples, commits the state before that step, and throws (exit 75).
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

 private:
  /// Runs a step. Returns false and leaves the state unchanged if any rank got a stop request.
  bool step(RolloutSource& source, std::int64_t step);
  void finish_step();
  /// Returns false if any rank got a stop request.
  bool evaluate();
  [[noreturn]] void save_and_stop();

  double save_s_ = 0;  ///< seconds of the previous step's checkpoint
};

}  // namespace qrl::train
