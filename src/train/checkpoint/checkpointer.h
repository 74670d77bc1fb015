// Owns when and with which data a run commits checkpoints, and how a stopped run ends.
#pragma once

#include <cstdint>

#include "train/checkpoint/checkpoint.h"
#include "train/run_plan.h"

namespace qrl::train {

/// Returns whether the row of state.step has the highest trainer.keep_best score so far. If so, records it in the
/// state.
bool note_if_best(const config::Recipe& recipe, const learner::Metrics& row, RunState& state);

class Checkpointer {
 public:
  /// Arguments must outlive the object. Checkpoints record the sizes of `metrics` and `sft_metrics`.
  Checkpointer(const RunContext& run, RunState& state, MetricsFile& metrics, MetricsFile& sft_metrics,
               const QuantizerState& quantizer);

  /// Commits a checkpoint and prunes old ones. All ranks of `world` call it. `row`: metrics of state.step, stored if
  /// state.evaluation_due.
  void commit(const learner::Learner& learner, dist::Collectives& world, const Metrics& row = {});
  /// Commits unless this step's checkpoint exists, on all of the run's ranks. Returns the seconds taken.
  double save(const learner::Learner& learner, const Metrics& row);
  /// Throws the error of a run stopped by a signal (exit 75). The state must be on disk.
  [[noreturn]] void stop_here() const;

 private:
  const RunContext& run_;
  RunState& state_;
  MetricsFile& metrics_;
  MetricsFile& sft_metrics_;
  const QuantizerState& quantizer_;
  std::int64_t saved_step_;  ///< last step that has a checkpoint or needs none
};

}  // namespace qrl::train
