#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "base/error.h"
#include "rollout/rollout.h"

namespace qrl::rollout {

namespace {

/// With ddof 1, of the rewards of all ranks in ascending order, so that ranks do not change a bit; 1 of a single one.
double deviation_of_all(std::span<const Rollout> rollouts, dist::Collectives& world) {
  std::vector<double> mine, all;
  for (const Rollout& rollout : rollouts) mine.push_back(rollout.reward);
  for (const std::string& bytes :
       world.all_gather(std::string(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(double)))) {
    const std::size_t before = all.size();
    all.resize(before + bytes.size() / sizeof(double));
    if (!bytes.empty()) std::memcpy(all.data() + before, bytes.data(), bytes.size());
  }
  if (all.size() < 2) return 1;
  std::sort(all.begin(), all.end());
  double mean = 0, squares = 0;
  for (const double reward : all) mean += reward;
  mean /= static_cast<double>(all.size());
  for (const double reward : all) squares += (reward - mean) * (reward - mean);
  return std::sqrt(squares / static_cast<double>(all.size() - 1));
}

}  // namespace

std::int64_t set_advantages(std::span<Rollout> rollouts, std::int32_t n, const AdvantageSettings& settings,
                            dist::Collectives& world) {
  QRL_INVARIANT(n >= 1 && rollouts.size() % static_cast<std::size_t>(n) == 0, "advantages", "whole groups of n",
                std::to_string(rollouts.size()) + " rollouts in groups of " + std::to_string(n));
  const double batch_std = settings.estimator->needs_batch_std ? deviation_of_all(rollouts, world) : 1;
  std::int64_t num_flat = 0;
  for (std::size_t first = 0; first < rollouts.size(); first += static_cast<std::size_t>(n)) {
    const std::span<Rollout> group = rollouts.subspan(first, static_cast<std::size_t>(n));
    double mean = 0, std = 1;
    if (n > 1) {
      for (const Rollout& rollout : group) mean += rollout.reward;
      mean /= n;
      double squares = 0;
      for (const Rollout& rollout : group) squares += (rollout.reward - mean) * (rollout.reward - mean);
      std = std::sqrt(squares / (n - 1));
    }
    bool flat = true;
    for (const Rollout& rollout : group) flat = flat && rollout.reward == group.front().reward;
    if (flat) ++num_flat;
    for (Rollout& rollout : group) {
      // A flat group's mean may miss its rewards by a rounding error, which std + eps would blow up: exactly 0 instead.
      const double centred = flat && n > 1 ? 0.0 : rollout.reward - mean;
      rollout.advantage = settings.estimator->advantage({centred, std, batch_std, n, settings.by_std});
      if (settings.positive_only) rollout.advantage = std::max(rollout.advantage, 0.0);
    }
  }
  return num_flat;
}

}  // namespace qrl::rollout
