// Owns when a run's checkpoints are committed, with which data, and how a stopped run ends. The contents are
// checkpoint.h's.
#pragma once

#include <cstdint>

#include "train/checkpoint.h"
#include "train/run_setup.h"

namespace qrl::train {

class Checkpointer {
 public:
  /// All arguments outlive it. `metrics`, `sft_metrics`: their sizes at a commit go into the checkpoint.
  Checkpointer(const RunSetup& setup, RunState& state, MetricsFile& metrics, MetricsFile& sft_metrics,
               const QuantizerState& quantizer);

  /// Commits a checkpoint of the state and prunes old ones. All ranks of `world` call. `row`: the metrics of
  /// state.step, kept when state.evaluation_due.
  void commit(const learner::Learner& learner, dist::Collectives& world, const Metrics& row = {});
  /// Commits on the run's ranks unless this step's checkpoint exists. Returns the seconds it took.
  double save(const learner::Learner& learner, const Metrics& row);
  /// Throws the error of a run that a signal stopped, with its state on disk (exit 75).
  [[noreturn]] void stop_here() const;

 private:
  const RunSetup& setup_;
  RunState& state_;
  MetricsFile& metrics_;
  MetricsFile& sft_metrics_;
  const QuantizerState& quantizer_;
  std::int64_t saved_step_;  ///< the last step whose state needs no further checkpoint
};

}  // namespace qrl::train
