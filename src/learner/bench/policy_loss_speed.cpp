#include "learner/bench/policy_loss_speed.h"

#include <cmath>
#include <vector>

#include "base/clock.h"
#include "learner/objective/mini_batch.h"
#include "learner/objective/policy_loss.h"

namespace qrl::learner {

namespace {

/// Changes log-probs by up to 0.05, irregularly, so that no special case is fast.
std::vector<float> moved(const std::vector<float>& from, float phase) {
  std::vector<float> to = from;
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += 0.05F * std::sin(phase + static_cast<float>(i));
  return to;
}

}  // namespace

double measure_policy_loss(std::span<const types::MicroBatch> batches, const types::GlobalCounts& counts,
                           LossOptions loss, dist::Collectives& world) {
  std::vector<types::MicroBatch> inputs(batches.begin(), batches.end());
  std::vector<std::vector<std::int64_t>> rows(inputs.size());
  std::vector<TargetScores> scores;
  for (std::size_t b = 0; b < inputs.size(); ++b) {
    types::MicroBatch& batch = inputs[b];
    batch.old_logprobs = moved(batch.sampler_logprobs, 0);
    const std::vector<float> now = moved(batch.old_logprobs, 1);
    std::vector<float> targets;
    for (std::size_t t = 0; t < batch.loss_mask.size(); ++t) {
      if (batch.loss_mask[t] == 0) continue;
      rows[b].push_back(static_cast<std::int64_t>(t));
      targets.push_back(now[t]);
    }
    scores.push_back({torch::tensor(targets).set_requires_grad(true), torch::ones_like(torch::tensor(targets))});
  }
  Statistics statistics;
  const double start_s = base::now_s();
  (void)prepare_mini_batch(pointers_to(inputs), loss, world);
  for (std::size_t b = 0; b < inputs.size(); ++b) {
    policy_loss(inputs[b], rows[b], scores[b], counts, loss, statistics).backward();
  }
  return base::now_s() - start_s;
}

}  // namespace qrl::learner
