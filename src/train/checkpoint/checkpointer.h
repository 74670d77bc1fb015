// Owns when a run commits checkpoints, with which data, and how a stopped run ends.
#pragma once

#include <cstdint>

#include "train/checkpoint/checkpoint.h"
#include "train/run_plan.h"

namespace qrl::train {

/// Returns whether the row of state.step has the highest trainer.keep_best so far, and then notes it in the state.
bool note_if_best(const config::Recipe& recipe, const learner::Metrics& row, RunState& state);

class Checkpointer {
 public:
  /// All arguments must outlive it. `metrics`, `sft_metrics`: a checkpoint records their sizes.
  Checkpointer(const RunContext& run, RunState& state, MetricsFile& metrics, MetricsFile& sft_metrics,
               const QuantizerState& quantizer);

  /// Commits a checkpoint of the state and prunes old ones. All ranks of `world` call. `row`: state.step's metrics,
  /// kept if state.evaluation_due.
  void commit(const learner::Learner& learner, dist::Collectives& world, const Metrics& row = {});
  /// Commits on the run's ranks unless this step's checkpoint exists, and returns the seconds.
  double save(const learner::Learner& learner, const Metrics& row);
  /// Throws the error of a run stopped by a signal, with its state on disk (exit 75).
  [[noreturn]] void stop_here() const;

 private:
  const RunContext& run_;
  RunState& state_;
  MetricsFile& metrics_;
  MetricsFile& sft_metrics_;
  const QuantizerState& quantizer_;
  std::int64_t saved_step_;  ///< the last step that needs no further checkpoint
};

}  // namespace qrl::train
