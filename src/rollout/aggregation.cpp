#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "rollout/rollout.h"
#include "rollout/teaching.h"

namespace qrl::rollout {

namespace {

/// Adds score k's advantages. Skips samples to which the score does not apply, and groups of equal scores.
void add_advantages_of(std::span<Rollout* const> group, std::size_t k, double weight) {
  std::vector<Rollout*> judged;
  std::copy_if(group.begin(), group.end(), std::back_inserter(judged),
               [k](const Rollout* r) { return !std::isnan(r->verdict.scores[k]); });
  const auto score = [k](const Rollout* r) { return r->verdict.scores[k]; };
  const bool flat =
      std::all_of(judged.begin(), judged.end(), [&](const Rollout* r) { return score(r) == score(judged.front()); });
  if (flat) return;
  const auto size = static_cast<double>(judged.size());
  double mean = 0, squares = 0;
  for (const Rollout* r : judged) mean += score(r);
  mean /= size;
  for (const Rollout* r : judged) squares += (score(r) - mean) * (score(r) - mean);
  const double std = std::sqrt(squares / (size - 1));
  for (Rollout* r : judged) r->advantage += weight * ((score(r) - mean) / (std + kAdvantageEps));
}

}  // namespace

void set_advantages_by_score(std::span<Rollout> rollouts, std::int32_t n, std::span<const double> weights,
                             bool positive_only, dist::Collectives& world) {
  QRL_INVARIANT(n >= 1 && rollouts.size() % static_cast<std::size_t>(n) == 0, "advantages", "whole groups of n",
                std::to_string(rollouts.size()) + " rollouts in groups of " + std::to_string(n));
  for (std::size_t first = 0; first < rollouts.size(); first += static_cast<std::size_t>(n)) {
    const std::vector<Rollout*> group = choose_teaching(rollouts.subspan(first, static_cast<std::size_t>(n)));
    for (std::size_t k = 0; k < weights.size(); ++k) {
      if (weights[k] != 0) add_advantages_of(group, k, weights[k]);
    }
  }
  std::vector<double> mine;
  for (const Rollout& rollout : rollouts) {
    if (rollout.teaches) mine.push_back(rollout.advantage);
  }
  const Spread all = spread_of_all(mine, world);
  for (Rollout& rollout : rollouts) {
    if (!rollout.teaches) continue;
    rollout.advantage = all.std > 0 ? (rollout.advantage - all.mean) / all.std : 0.0;
    if (positive_only) rollout.advantage = std::max(rollout.advantage, 0.0);
  }
}

}  // namespace qrl::rollout
