// Owns the training loop and the state it advances. Reads like the design's one screen; everything it calls is
// elsewhere.
#pragma once

#include "rollout/rollout.h"
#include "train/checkpoint.h"
#include "train/health.h"
#include "train/progress.h"
#include "train/prompts.h"
#include "train/quantizer.h"
#include "train/run_folder.h"
#include "train/session.h"
#include "train/step_groups.h"

namespace qrl::train {

/// What a run's phases work on together.
struct RunParts {
  const config::Recipe& recipe;
  const std::string& resolved_recipe;
  const Inputs& inputs;
  dist::Collectives& world;
  const Policy& policy;
  const reward::Verifier& verifier;
  const RunFolder* folder;  ///< null on all ranks but the first
  RunState& state;
  MetricsFile& metrics;
  MetricsFile& sft_metrics;
  Metrics unfinished_row;  ///< of state.step, with state.evaluation_due
  QuantizerState quantizer;
};

/// Commits a checkpoint of `parts.state` with the metric files' sizes in it (all ranks of `world` call), prunes old
/// ones.
void commit(RunParts& parts, const learner::Learner& learner, dist::Collectives& world);

/// Throws the error of a run that a signal stopped, its state on disk (exit 75).
[[noreturn]] void stop_here(const RunParts& parts);

/// Ends the run (exit 3) when too many updates in a row were skipped as not finite; keeps the streak in `state`.
void guard_finite(const learner::UpdateReport& report, const config::Recipe& recipe, RunState& state);

/// RL from state.step to trainer.total_training_steps. `reference`: log-probs of the frozen initial policy, null unless
/// algorithm.kl_loss_coef is set.
class Trainer {
 public:
  Trainer(RunParts& parts, learner::Learner& learner, learner::Learner* reference, const PromptSet& prompts,
          const std::vector<PromptSet>& held_out);

  /// Steps until the last, evaluating and committing when due. When a stop is requested, it gives up what it is
  /// sampling, commits the state before that and throws (exit 75).
  void train();

  /// What it samples with, at the weights last published.
  const Sampler& sampler() const { return sampler_; }

 private:
  /// One optimizer mini-batch: this rank's micro-batches and the denominators over all ranks.
  struct MiniBatch {
    std::vector<types::MicroBatch> micro;
    types::GlobalCounts counts;
  };

  /// Evaluates when due, writes the step's row, commits when due or when a stop is requested.
  void finish_step(Metrics row);
  /// Logs what a row shows of a run that does not learn.
  void warn(const Metrics& row);
  /// The scores of a row of metrics, on the console and in the log.
  void show_scores(const Metrics& row);
  [[noreturn]] void save_and_stop();
  double save();  ///< commits unless this state's checkpoint is there; seconds
  /// Nothing, with the state as before: abandoned, on every rank.
  std::optional<Metrics> step(std::int64_t step);
  std::optional<StepGroups> roll_out(std::int64_t step, Metrics& metrics);
  std::vector<MiniBatch> make_mini_batches(const StepGroups& groups) const;
  void add_frozen_logprobs(std::vector<MiniBatch>& batches, Metrics& metrics);
  Metrics update(const MiniBatch& batch, bool is_first);
  void add_learner_speed(const std::vector<MiniBatch>& batches, Metrics& metrics);
  void publish_weights();
  void publish();
  /// The gap at the weights last published, checked against the recipe's limit.
  Metrics probe();
  void write_audit() const;
  std::optional<Metrics> evaluate_held_out();  ///< nothing: abandoned, on every rank

  RunParts& parts_;
  learner::Learner& learner_;
  learner::Learner* reference_;
  const PromptSet& prompts_;
  const std::vector<PromptSet>& held_out_;
  PromptOrder order_;
  Sampler sampler_;
  Progress progress_;
  Health health_;                          ///< of the first rank's rows
  std::vector<std::string> metric_names_;  ///< of an update, which a step without anything to learn has as NaN
  std::int64_t saved_step_;                ///< the last step whose state needs no further checkpoint
  double learner_ceiling_ = 0;             ///< operations a second; measured after the first update
  double save_s_ = 0;  ///< of the step before: a row is written before the checkpoint that vouches for it
};

}  // namespace qrl::train
