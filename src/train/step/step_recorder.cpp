#include "train/step/step_recorder.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "learner/objective/mini_batch.h"
#include "learner/objective/route_statistics.h"
#include "train/metrics/held_out_names.h"
#include "train/metrics/step_metrics.h"
#include "train/plan/machine.h"
#include "train/plan/options.h"
#include "train/plan/work_estimate.h"
#include "train/prompts/prompts.h"

namespace qrl::train {

namespace {

/// In the order of Phase.
constexpr const char* kPhaseNames[] = {"timing_s/gen",       "timing_s/reward",       "timing_s/old_log_prob",
                                       "timing_s/ref",       "timing_s/update_actor", "timing_s/publish",
                                       "timing_s/gap_probe", "timing_s/testing"};
static_assert(std::size(kPhaseNames) == static_cast<std::size_t>(Phase::evaluate) + 1);

const char* name_of(Phase phase) { return kPhaseNames[static_cast<std::size_t>(phase)]; }

}  // namespace

StepRecorder::StepRecorder(const RunContext& run, const learner::LossOptions& loss, const RunState& state,
                           MetricsFile& file, Metrics unfinished_row)
    : run_(run),
      state_(state),
      file_(file),
      row_(std::move(unfinished_row)),
      progress_("step", state.step + 1, run.recipe().trainer.total_training_steps, !run.world.is_first()),
      health_(run.recipe()),
      held_out_(std::numeric_limits<double>::quiet_NaN()),
      update_names_(learner::policy_metric_names(loss)) {
  for (std::string& name : learner::route_metric_names(run.plan.model)) update_names_.push_back(std::move(name));
  if (run.folder == nullptr) return;
  for (const report::Row& row : report::read_rows(run.folder->metrics_file()).rows) {
    (void)health_.observe(row.step, row.metrics);
    (void)watcher_.observe(row);
  }
}

void StepRecorder::begin_step() {
  (void)run_.plan.verifier->take_report();  // discards the report of the last evaluation
  row_.clear();
  start_s_ = base::now_s();
}

void StepRecorder::add(const PhaseSeconds& seconds) {
  for (const auto& [phase, phase_s] : seconds) row_[name_of(phase)] += phase_s;
}

void StepRecorder::add(Metrics metrics) { row_.merge(metrics); }

void StepRecorder::add_rollouts(const RolloutBatch& batch) {
  const Recipe& recipe = run_.recipe();
  const GenerationCounts& counts = batch.counts;
  add(batch.seconds);
  add(rollout_metrics(batch.groups.rollouts, static_cast<std::int32_t>(recipe.rollout.n), batch.groups.places,
                      recipe.reward, *run_.plan.verifier, run_.world));
  if (sample_params(recipe.rollout).cuts()) add(kept_metrics(batch.groups.rollouts, run_.world));
  if (run_.plan.conversations) add_environment(batch);
  add_judging();
  row_["reward/verifier_error_fraction"] =
      static_cast<double>(counts.verifier_errors) / static_cast<double>(counts.samples);
  if (recipe.algorithm.filter_groups.enable) {
    row_["data/flat_group_fraction"] = static_cast<double>(counts.flat_groups) / static_cast<double>(counts.groups);
    row_["data/num_gen_batches"] = static_cast<double>(counts.batches);
    row_["data/drawn_groups"] = static_cast<double>(counts.groups);
    row_["data/trained_groups"] = static_cast<double>(batch.groups.num_groups);
    row_["data/drawn_score/mean"] = counts.score_sum / static_cast<double>(counts.num_judged);
    row_["data/drawn_score/max"] = counts.best_group_score;
    row_["data/surplus_groups"] = static_cast<double>(counts.kept_groups - batch.groups.num_groups);
  }
  if (run_.plan.policy.tokenizer.lacks_bytes()) {
    double num_bytes = 0;
    for (const rollout::Rollout& sample : batch.groups.rollouts)
      num_bytes += static_cast<double>(sample.prompt->unencodable_bytes);
    run_.world.all_reduce_sum(std::span<double>(&num_bytes, 1));
    row_["data/unencodable_bytes"] = num_bytes / static_cast<double>(recipe.rollout.n);
  }
  // Sums tokens over all ranks. Each rank's seconds include the wait for the slowest rank.
  double tokens = static_cast<double>(batch.stats.decode_tokens);
  run_.world.all_reduce_sum(std::span<double>(&tokens, 1));
  row_["perf/tokens_per_s"] = tokens / std::max(row_[name_of(Phase::generate)], 1e-9);
  row_["perf/kv_peak_pages"] = static_cast<double>(batch.stats.peak_kv_pages);
  row_["perf/preemptions"] = static_cast<double>(batch.stats.preemptions);
  row_["perf/prefix_hit_tokens"] = static_cast<double>(batch.stats.shared_prompt_tokens);
}

void StepRecorder::add_environment(const RolloutBatch& batch) {
  add(environment_metrics(batch.groups.rollouts, run_.world));
  double slots[] = {batch.stats.used_slot_s, batch.stats.allowed_slot_s};
  run_.world.all_reduce_sum(std::span<double>(slots));
  row_["perf/decode_slot_use"] = slots[0] / std::max(slots[1], 1e-9);
}

void StepRecorder::add_judging() {
  const std::optional<tasks::JudgeReport> report = run_.plan.verifier->take_report();
  if (report) add(judging_metrics(*report, run_.world));
}

void StepRecorder::add_updates(std::span<const Metrics> updates, std::span<const MiniBatch> batches,
                               const PhaseSeconds& seconds) {
  add(seconds);
  row_.try_emplace(name_of(Phase::update), 0.0);
  add_learner_speed(batches);
  add(combine_updates(updates));
  for (const std::string& name : update_names_) row_.try_emplace(name, std::numeric_limits<double>::quiet_NaN());
}

void StepRecorder::add_learner_speed(std::span<const MiniBatch> batches) {
  double tokens = 0, operations = 0;
  for (const MiniBatch& batch : batches) {
    std::int64_t counted = 0;
    for (const types::MicroBatch& micro : batch.micro) {
      tokens += static_cast<double>(micro.num_tokens());
      counted += std::ranges::count(micro.loss_mask, 1);
    }
    operations += learner_operations(run_.plan.model, batch.micro, counted);
  }
  if (learner_ceiling_ == 0) learner_ceiling_ = learner_ceiling(run_.recipe());
  const auto epochs = static_cast<double>(run_.recipe().actor.ppo_epochs);
  const double epoch_s = std::max(row_[name_of(Phase::update)] / epochs, 1e-9);
  double sums[] = {tokens, operations};
  run_.world.all_reduce_sum(std::span<double>(sums));
  row_["perf/learner_tokens_per_s"] = sums[0] / epoch_s;
  row_["perf/mfu/actor"] = sums[1] / epoch_s / (learner_ceiling_ * run_.world.size());
}

void StepRecorder::end_step(double save_s) {
  row_["training/policy_version"] = static_cast<double>(state_.policy_version);
  row_["timing_s/save_checkpoint"] = save_s;
  row_["timing_s/step"] = base::now_s() - start_s_;
}

void StepRecorder::write() {
  row_["perf/peak_memory_gib"] = peak_memory_gib();
  row_["timing_s/unix"] = base::unix_s();
  file_.append(state_.step, row_);
  const std::vector<report::Verdict> verdicts = watcher_.observe({state_.step, row_});
  rewards_.push_back(report::value_of(row_, "critic/rewards/mean"));
  progress_.show(state_.step, progress_.columns() > 0 ? terminal_facts(row_, rewards_, held_out_, progress_.columns())
                                                      : step_facts(row_));
  show_scores();
  if (run_.folder != nullptr) warn(verdicts);
}

void StepRecorder::warn(std::span<const report::Verdict> verdicts) {
  const std::vector<std::string> warnings = health_.observe(state_.step, row_);
  for (const std::string& warning : warnings) base::log_warning(warning);
  for (const report::Verdict& verdict : verdicts) {
    const bool is_told = !warnings.empty() && std::isfinite(verdict.rule->step_bound);
    if (!is_told) base::log_warning("step " + std::to_string(state_.step) + ": " + report::describe(verdict));
  }
}

void StepRecorder::write_scores() {
  row_["timing_s/unix"] = base::unix_s();
  file_.append(state_.step, row_);
  (void)watcher_.observe({state_.step, row_});
  show_scores();
}

void StepRecorder::show_scores() {
  std::string text;
  for (const PromptSet& set : run_.plan.held_out) {
    const bool by_score = watcher_.measures().held_out_by_score(set.data_source);
    const auto score = row_.find(score_name(set.data_source, run_.recipe().eval.n, by_score));
    if (score == row_.end()) continue;
    if (&set == &run_.plan.held_out.front()) held_out_ = score->second;
    text += "  " + shown_score_name(score->first) + base::format(": %.3f", score->second);
  }
  if (!text.empty()) progress_.say("eval after step " + std::to_string(state_.step) + text);
}

}  // namespace qrl::train
