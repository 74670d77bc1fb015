// Owns a step's row of metrics.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/rules.h"
#include "train/metrics/health.h"
#include "train/metrics/progress.h"
#include "train/step/batch_builder.h"
#include "train/step/policy_updater.h"
#include "train/step/rollout_source.h"

namespace qrl::train {

class StepRecorder {
 public:
  /// References must outlive the object. `unfinished_row`: the row of state.step, if its evaluation is due.
  StepRecorder(const RunContext& run, const learner::LossOptions& loss, const RunState& state, MetricsFile& file,
               Metrics unfinished_row);

  void begin_step();
  void add(const PhaseSeconds& seconds);
  void add(Metrics metrics);
  /// Adds the rollouts' metrics and generation's speed. Collective.
  void add_rollouts(const RolloutBatch& batch);
  /// Adds the updates' combined metrics, the learner's tokens per second, and its share of the matmul ceiling (MFU).
  /// Collective.
  void add_updates(std::span<const Metrics> updates, std::span<const MiniBatch> batches, const PhaseSeconds& seconds);
  /// `save_s`: seconds of the previous step's checkpoint.
  void end_step(double save_s);

  const Metrics& row() const { return row_; }
  /// Appends and shows the row, and logs warnings if the run does not learn.
  void write();
  /// Appends and shows the row of the evaluation before training.
  void write_scores();

 private:
  void add_judging();
  void add_environment(const RolloutBatch& batch);
  void add_learner_speed(std::span<const MiniBatch> batches);
  void show_scores();
  void warn(std::span<const report::Verdict> verdicts);

  const RunContext& run_;
  const RunState& state_;
  MetricsFile& file_;
  Metrics row_;
  Progress progress_;
  Health health_;  ///< reads rows on the first rank only
  report::Watcher watcher_;
  std::vector<double> rewards_;  ///< mean reward of each step since this start
  double held_out_;              ///< newest score of the first held-out set, or NaN
  std::vector<std::string> update_names_;
  double learner_ceiling_ = 0;  ///< peak operations per second of a rank's matmuls, measured after the first update
  double start_s_ = 0;
};

}  // namespace qrl::train
