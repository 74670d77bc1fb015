#pragma once

#include <cstdint>

#include "train/checkpoint/checkpointer.h"
#include "train/evaluate/held_out.h"
#include "train/step/batch_builder.h"
#include "train/step/policy_updater.h"
#include "train/step/rollout_source.h"
#include "train/step/step_recorder.h"
#include "train/step/weight_publisher.h"

namespace qrl::train {

/// Holds the loop's parts, which must outlive the trainer.
struct TrainerParts {
  RolloutSource& rollouts;
  BatchBuilder& batches;
  PolicyUpdater& updater;
  WeightPublisher& publisher;
  HeldOutEvaluation& held_out;
  StepRecorder& recorder;
  Checkpointer& checkpointer;
};

/// Runs RL from state.step to trainer.total_training_steps.
class Trainer {
 public:
  Trainer(const RunContext& run, RunState& state, learner::Learner& learner, const TrainerParts& parts)
      : run_(run), state_(state), learner_(learner), parts_(parts) {}

  /// Runs all remaining steps; evaluates and commits when due. On a stop request, drops unfinished samples, commits the
  /// state before them, and throws (exit 75).
  void train();

 private:
  /// Returns false and leaves the state unchanged if any rank got a stop request.
  bool step(std::int64_t step);
  /// Evaluates when due, writes the row, commits when due or on a stop request.
  void finish_step();
  /// Adds scores to the row; returns false if any rank got a stop request.
  bool evaluate();
  [[noreturn]] void save_and_stop();

  const RunContext& run_;
  RunState& state_;
  learner::Learner& learner_;
  TrainerParts parts_;
  double save_s_ = 0;  ///< the previous step's checkpoint time
};

}  // namespace qrl::train
