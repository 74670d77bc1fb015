#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "rollout/rollout.h"
#include "rollout/teaching.h"

namespace qrl::rollout {

namespace {

struct GroupSpread {
  double mean = 0, std = 1;  ///< ddof 1
  bool is_flat = true;
};

GroupSpread spread_of(std::span<Rollout* const> group) {
  GroupSpread spread;
  if (group.size() > 1) {
    for (const Rollout* rollout : group) spread.mean += rollout->reward;
    spread.mean /= static_cast<double>(group.size());
    double squares = 0;
    for (const Rollout* rollout : group) squares += (rollout->reward - spread.mean) * (rollout->reward - spread.mean);
    spread.std = std::sqrt(squares / static_cast<double>(group.size() - 1));
  }
  for (const Rollout* rollout : group) spread.is_flat = spread.is_flat && rollout->reward == group.front()->reward;
  return spread;
}

/// Returns reward − the group's mean. A group of equal rewards gets exactly 0, because division by std + eps would
/// magnify a rounding error.
double centred(const Rollout& rollout, const GroupSpread& group, std::size_t size) {
  return group.is_flat && size > 1 ? 0.0 : rollout.reward - group.mean;
}

/// Returns the standard deviation (ddof 1, fp64) of all ranks' values; 1 for a single value. Values are sorted, so that
/// ranks do not matter.
double deviation_of_all(std::span<Rollout> rollouts, std::int32_t n, BatchStd of, dist::Collectives& world) {
  if (of == BatchStd::none) return 1;
  std::vector<double> mine;
  for (std::size_t first = 0; first < rollouts.size(); first += static_cast<std::size_t>(n)) {
    const std::span<Rollout> samples = rollouts.subspan(first, static_cast<std::size_t>(n));
    const std::vector<Rollout*> group = choose_teaching(samples);
    const GroupSpread spread = spread_of(group);
    if (of == BatchStd::of_centred) {
      for (const Rollout* rollout : group) mine.push_back(centred(*rollout, spread, group.size()));
      continue;
    }
    for (const Rollout& rollout : samples)
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
  const double batch_std = deviation_of_all(rollouts, n, settings.estimator->batch_std, world);
  std::int64_t num_flat = 0;
  for (std::size_t first = 0; first < rollouts.size(); first += static_cast<std::size_t>(n)) {
    const std::vector<Rollout*> group = choose_teaching(rollouts.subspan(first, static_cast<std::size_t>(n)));
    const GroupSpread spread = spread_of(group);
    if (spread.is_flat) ++num_flat;
    for (Rollout* rollout : group) {
      rollout->advantage =
          settings.estimator->advantage({centred(*rollout, spread, group.size()), spread.std, batch_std,
                                         static_cast<std::int32_t>(group.size()), settings.by_std});
      if (settings.positive_only) rollout->advantage = std::max(rollout->advantage, 0.0);
    }
  }
  return num_flat;
}

}  // namespace qrl::rollout
