// Owns the training loop. Its parts do the work; it knows no metric name and no algorithm.
#pragma once

#include <cstdint>

#include "train/batch_builder.h"
#include "train/checkpointer.h"
#include "train/held_out.h"
#include "train/policy_updater.h"
#include "train/rollout_source.h"
#include "train/step_recorder.h"
#include "train/weight_publisher.h"

namespace qrl::train {

/// Holds the parts of the loop, each of which outlives the trainer.
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
  Trainer(const RunSetup& setup, RunState& state, learner::Learner& learner, const TrainerParts& parts)
      : setup_(setup), state_(state), learner_(learner), parts_(parts) {}

  /// Steps until the last, evaluating and committing when due. When a stop is requested, it gives up what it is
  /// sampling, commits the state before that and throws (exit 75).
  void train();

 private:
  /// Returns false, with the state as before, if any rank got a stop request.
  bool step(std::int64_t step);
  /// Evaluates when due, writes the step's row, commits when due or when a stop is requested.
  void finish_step();
  /// Adds the scores to the row; false when any rank got a stop request.
  bool evaluate();
  [[noreturn]] void save_and_stop();

  const RunSetup& setup_;
  RunState& state_;
  learner::Learner& learner_;
  TrainerParts parts_;
  double save_s_ = 0;  ///< of the step before
};

}  // namespace qrl::train
