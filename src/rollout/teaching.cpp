#include "rollout/teaching.h"

#include <cmath>

#include "dist/gather.h"

namespace qrl::rollout {

std::vector<Rollout*> choose_teaching(std::span<Rollout> group) {
  std::vector<Rollout*> judged;
  for (Rollout& rollout : group) {
    rollout.teaches = false;
    rollout.advantage = 0;
    if (!rollout.verdict.dropped) judged.push_back(&rollout);
  }
  if (judged.size() < 2 && group.size() > 1) return {};
  for (Rollout* rollout : judged) rollout->teaches = true;
  return judged;
}

Spread spread_of_all(std::span<const double> mine, dist::Collectives& world) {
  const std::vector<double> all = dist::all_gather_sorted(mine, world);
  Spread spread{static_cast<std::int64_t>(all.size()), 0, 0};
  if (all.empty()) return spread;
  double squares = 0;
  for (const double value : all) spread.mean += value;
  spread.mean /= static_cast<double>(all.size());
  for (const double value : all) squares += (value - spread.mean) * (value - spread.mean);
  if (all.size() > 1) spread.std = std::sqrt(squares / static_cast<double>(all.size() - 1));
  return spread;
}

}  // namespace qrl::rollout
