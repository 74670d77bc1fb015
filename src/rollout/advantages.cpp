#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "dist/gather.h"
#include "rollout/rollout.h"

namespace qrl::rollout {

namespace {

/// Mean and standard deviation (ddof 1; 0 for fewer than two values) in fp64.
struct Spread {
  std::int64_t count = 0;
  double mean = 0, std = 0;
};

/// Returns a group's samples that enter the loss: the judged ones if at least two, or in a group of one. Sets others to
/// `teaches` = false and advantage 0.
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

/// Returns the spread of all ranks' values, summed in ascending order, so that ranks do not matter. Collective.
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

/// Returns reward − the group's mean, exactly 0 in a group of equal rewards: division by std + eps would magnify a
/// rounding error.
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

/// Adds score k's advantages. Skips samples to which the score does not apply, and groups of equal scores.
void add_advantages_of(std::span<Rollout* const> group, std::size_t k, double weight) {
  std::vector<Rollout*> judged;
  std::ranges::copy_if(group, std::back_inserter(judged),
                       [k](const Rollout* r) { return !std::isnan(r->verdict.scores[k]); });
  const auto score = [k](const Rollout* r) { return r->verdict.scores[k]; };
  const bool flat = std::ranges::all_of(judged, [&](const Rollout* r) { return score(r) == score(judged.front()); });
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
