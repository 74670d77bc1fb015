#include "train/step/policy_updater.h"

#include <utility>

#include "learner/objective/mini_batch.h"
#include "train/plan/options.h"
#include "train/step/guards.h"

namespace qrl::train {

Metrics PolicyUpdater::update(const MiniBatch& batch, bool at_sampling_weights) {
  const config::Recipe& recipe = run_.recipe();
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
  if (run_.recipe().rollout.free_cache_engine) learner_.release_memory();  // makes room for the KV cache
}

}  // namespace qrl::train
