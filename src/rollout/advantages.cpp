#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "rollout/rollout.h"
#include "rollout/teaching.h"

namespace qrl::rollout {

namespace {

/// With ddof 1, of the rewards of all ranks in ascending order, so that ranks do not change a bit; 1 of a single one.
double deviation_of_all(std::span<const Rollout> rollouts, dist::Collectives& world) {
  std::vector<double> mine;
  for (const Rollout& rollout : rollouts) {
    if (!rollout.verdict.dropped) mine.push_back(rollout.reward);
  }
  const Spread all = spread_of_all(mine, world);
  return all.count < 2 ? 1 : all.std;
}

}  // namespace

std::int64_t set_advantages(std::span<Rollout> rollouts, std::int32_t n, const AdvantageSettings& settings,
                            dist::Collectives& world) {
  QRL_INVARIANT(n >= 1 && rollouts.size() % static_cast<std::size_t>(n) == 0, "advantages", "whole groups of n",
                std::to_string(rollouts.size()) + " rollouts in groups of " + std::to_string(n));
  const double batch_std = settings.estimator->needs_batch_std ? deviation_of_all(rollouts, world) : 1;
  std::int64_t num_flat = 0;
  for (std::size_t first = 0; first < rollouts.size(); first += static_cast<std::size_t>(n)) {
    const std::vector<Rollout*> group = choose_teaching(rollouts.subspan(first, static_cast<std::size_t>(n)));
    const auto size = static_cast<std::int32_t>(group.size());
    double mean = 0, std = 1;
    if (size > 1) {
      for (const Rollout* rollout : group) mean += rollout->reward;
      mean /= size;
      double squares = 0;
      for (const Rollout* rollout : group) squares += (rollout->reward - mean) * (rollout->reward - mean);
      std = std::sqrt(squares / (size - 1));
    }
    bool flat = true;
    for (const Rollout* rollout : group) flat = flat && rollout->reward == group.front()->reward;
    if (flat) ++num_flat;
    for (Rollout* rollout : group) {
      // A flat group's mean may miss its rewards by a rounding error, which std + eps would blow up: exactly 0 instead.
      const double centred = flat && size > 1 ? 0.0 : rollout->reward - mean;
      rollout->advantage = settings.estimator->advantage({centred, std, batch_std, size, settings.by_std});
      if (settings.positive_only) rollout->advantage = std::max(rollout->advantage, 0.0);
    }
  }
  return num_flat;
}

}  // namespace qrl::rollout
