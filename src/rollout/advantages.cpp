#include <cmath>

#include "base/error.h"
#include "rollout/rollout.h"

namespace qrl::rollout {

std::int64_t set_advantages(std::span<Rollout> rollouts, std::int32_t n, bool by_std) {
  QRL_INVARIANT(n >= 1 && rollouts.size() % static_cast<std::size_t>(n) == 0, "advantages", "whole groups of n",
                std::to_string(rollouts.size()) + " rollouts in groups of " + std::to_string(n));
  constexpr double kEps = 1e-6;
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
      rollout.advantage = by_std ? centred / (std + kEps) : centred;
    }
  }
  return num_flat;
}

}  // namespace qrl::rollout
