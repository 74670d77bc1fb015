#include "train/step/policy_updater.h"

#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "learner/objective/mini_batch.h"
#include "train/plan/options.h"

namespace qrl::train {

Metrics PolicyUpdater::update(const MiniBatch& batch, bool at_sampling_weights) {
  const Recipe& recipe = run_.recipe();
  learner::LossOptions loss = loss_;
  loss.at_sampling_weights = at_sampling_weights;
  Metrics signals;
  if (learner::needs_whole_mini_batch(loss)) {
    std::vector<const types::MicroBatch*> all = learner::pointers_to(batch.micro);
    for (const types::MicroBatch& micro : batch.scored_only) all.push_back(&micro);
    signals = learner::prepare_mini_batch(all, loss, run_.world);
  }
  for (const types::MicroBatch& micro : batch.micro) {
    learner_.accumulate(micro, batch.counts, loss, sample_params(recipe.rollout), &micro == &batch.micro.back());
  }
  learner::UpdateReport report = learner_.update();
  guard_finite(report, recipe, state_);
  if (report.finite) ++state_.policy_version;
  report.metrics.insert(signals.begin(), signals.end());
  return std::move(report.metrics);
}

void PolicyUpdater::release_memory() {
  if (run_.recipe().rollout.free_cache_engine) learner_.release_memory();
}

void guard_finite(const learner::UpdateReport& report, const Recipe& recipe, RunState& state) {
  if (report.finite) {
    state.non_finite_streak = 0;
    return;
  }
  base::log_warning("update skipped on all ranks: " + report.non_finite + " is not finite");
  if (++state.non_finite_streak >= recipe.trainer.max_non_finite_steps) {
    throw base::Error(
        base::ErrorKind::guard, "training", "finite gradients",
        report.non_finite + " not finite in " + std::to_string(state.non_finite_streak) + " updates in a row",
        "lower optim.lr, or raise trainer.max_non_finite_steps");
  }
}

}  // namespace qrl::train
