// Owns a step's row of metrics: the names, the speeds, the file, and what a person watching the run sees of it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/rules.h"
#include "train/batch_builder.h"
#include "train/health.h"
#include "train/policy_updater.h"
#include "train/progress.h"
#include "train/rollout_source.h"

namespace qrl::train {

class StepRecorder {
 public:
  /// All references outlive it. `unfinished_row`: of state.step, when its evaluation is due.
  StepRecorder(const RunSetup& setup, const learner::LossOptions& loss, const RunState& state, MetricsFile& file,
               Metrics unfinished_row);

  /// Begins an empty row, and the step's time.
  void begin_step();
  void add(const PhaseSeconds& seconds);
  /// Adds metrics that the row does not have yet.
  void add(Metrics metrics);
  /// Adds what the rollouts show, and the speed of generation. Collective.
  void add_rollouts(const RolloutBatch& batch);
  /// Adds the combined metrics of a step's updates, the learner's tokens a second and its share of the matmul ceiling
  /// (MFU). Metrics of an update that a step without anything to learn lacks are NaN. Collective.
  void add_updates(std::span<const Metrics> updates, std::span<const MiniBatch> batches, const PhaseSeconds& seconds);
  /// `save_s`: of the step before, since a row is written before the checkpoint that vouches for it.
  void end_step(double save_s);

  const Metrics& row() const { return row_; }
  /// Appends the row to the file, shows it, and logs what it shows of a run that does not learn.
  void write();
  /// Appends and shows the row of an evaluation before training.
  void write_scores();

 private:
  /// Adds the cost of a verifier that is a program.
  void add_judging();
  void add_learner_speed(std::span<const MiniBatch> batches);
  void show_scores();
  /// Warnings of what the row shows.
  void warn();

  const RunSetup& setup_;
  const RunState& state_;
  MetricsFile& file_;
  Metrics row_;
  Progress progress_;
  Health health_;  ///< of the first rank's rows
  report::Watcher watcher_;
  std::vector<double> rewards_;  ///< of this start's steps
  double held_out_;              ///< the newest score of the first held-out set; NaN before there is one
  std::vector<std::string> update_names_;
  double learner_ceiling_ = 0;  ///< operations a second; measured after the first update
  double start_s_ = 0;
};

}  // namespace qrl::train
