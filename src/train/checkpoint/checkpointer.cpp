#include "train/checkpoint/checkpointer.h"

#include <cmath>

#include "base/clock.h"
#include "base/error.h"
#include "train/signals.h"

namespace qrl::train {

Checkpointer::Checkpointer(const RunContext& run, RunState& state, MetricsFile& metrics, MetricsFile& sft_metrics,
                           const QuantizerState& quantizer)
    : run_(run),
      state_(state),
      metrics_(metrics),
      sft_metrics_(sft_metrics),
      quantizer_(quantizer),
      saved_step_(state.step) {}

void Checkpointer::commit(const learner::Learner& learner, dist::Collectives& world, const Metrics& row) {
  state_.num_updates = learner.num_updates();
  state_.metrics_bytes = metrics_.sync();
  state_.sft_metrics_bytes = sft_metrics_.sync();
  const RunFolder* folder = run_.folder;
  if (folder != nullptr) folder->keep_lock();
  const std::filesystem::path dir = folder != nullptr ? folder->checkpoints() : std::filesystem::path();
  save_checkpoint(dir, state_, learner,
                  {run_.plan.model, run_.plan.policy.tokenizer, run_.plan.loaded.resolved_yaml, run_.plan.inputs, world,
                   row, quantizer_, learner.has_adapters() ? run_.base : nullptr});
  const config::Recipe& recipe = run_.recipe();
  if (folder != nullptr) prune_checkpoints(dir, recipe.trainer.max_ckpt_to_keep, recipe.sft.steps, state_.best_step);
}

bool note_if_best(const config::Recipe& recipe, const learner::Metrics& row, RunState& state) {
  const auto score = row.find(recipe.trainer.keep_best);
  if (recipe.trainer.keep_best.empty() || score == row.end() || std::isnan(score->second)) return false;
  if (state.best_step >= 0 && score->second <= state.best_score) return false;
  state.best_step = state.step;
  state.best_score = score->second;
  return true;
}

double Checkpointer::save(const learner::Learner& learner, const Metrics& row) {
  double seconds = 0;
  if (state_.step != saved_step_) {
    const base::ScopedTimer timer(seconds);
    commit(learner, run_.world, row);
  }
  saved_step_ = state_.step;
  if (run_.folder != nullptr && state_.best_step == state_.step) name_best(run_.folder->checkpoints(), state_.step);
  return seconds;
}

void Checkpointer::stop_here() const {
  const bool nothing_yet = state_.step == 0 && run_.recipe().sft.steps == 0;
  std::string where = std::string("stopped by ") + stop_reason();
  if (nothing_yet) where += " before the first checkpoint";
  else if (run_.folder != nullptr) where += "; the checkpoint is in " + run_.folder->checkpoints().string();
  throw base::Error(base::ErrorKind::stopped, where, "", "",
                    nothing_yet ? "the same command starts again" : "the same command goes on from there");
}

}  // namespace qrl::train
