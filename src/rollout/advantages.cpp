#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "dist/gather.h"
#include "rollout/rollout.h"

namespace qrl::rollout {

namespace {

/// Holds mean and standard deviation in fp64. The standard deviation has ddof 1, and is 0 for fewer than two values.
struct Spread {
  std::size_t count = 0;
  double mean = 0, std = 0;
  bool is_flat = true;  ///< whether all values are equal
};

Spread spread_of(std::span<const double> values) {
  Spread spread{values.size()};
  if (values.empty()) return spread;
  const auto count = static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) spread.mean += value;
  spread.mean /= count;
  for (const double value : values) squares += (value - spread.mean) * (value - spread.mean);
  if (values.size() > 1) spread.std = std::sqrt(squares / (count - 1));
  spread.is_flat = std::ranges::all_of(values, [&](double value) { return value == values.front(); });
  return spread;
}

std::vector<std::span<Rollout>> runs_of(std::span<Rollout> rollouts, std::int32_t n) {
  QRL_INVARIANT(n >= 1 && rollouts.size() % static_cast<std::size_t>(n) == 0, "advantages", "whole groups of n",
                std::to_string(rollouts.size()) + " rollouts in groups of " + std::to_string(n));
  std::vector<std::span<Rollout>> runs;
  for (; !rollouts.empty(); rollouts = rollouts.subspan(static_cast<std::size_t>(n)))
    runs.push_back(rollouts.first(static_cast<std::size_t>(n)));
  return runs;
}

/// Returns the group's samples that enter the loss. These are all judged samples, or none if only one sample of a
/// larger group was judged. Sets in_loss, and resets advantages to 0.
std::vector<Rollout*> choose_teaching(std::span<Rollout> group) {
  std::vector<Rollout*> judged;
  for (Rollout& rollout : group) {
    rollout.in_loss = false;
    rollout.advantage = 0;
    if (!rollout.verdict.dropped) judged.push_back(&rollout);
  }
  if (judged.size() < 2 && group.size() > 1) return {};
  for (Rollout* rollout : judged) rollout->in_loss = true;
  return judged;
}

/// Returns the spread of all ranks' values. Its bits do not depend on which rank holds which value. Collective.
Spread spread_of_all(std::span<const double> mine, dist::Collectives& world) {
  return spread_of(dist::all_gather_sorted(mine, world));
}

/// Returns the spread of the rewards. With fewer than two samples, mean is 0 and std is 1.
Spread spread_of(std::span<Rollout* const> group) {
  if (group.size() < 2) return {group.size(), 0, 1};
  std::vector<double> rewards;
  for (const Rollout* rollout : group) rewards.push_back(rollout->reward);
  return spread_of(rewards);
}

/// Returns reward − the group's mean. Returns exactly 0 if all rewards are equal, because division by std + eps would
/// magnify a rounding error.
double centred(const Rollout& rollout, const Spread& group) {
  return group.is_flat && group.count > 1 ? 0.0 : rollout.reward - group.mean;
}

/// Returns the standard deviation (ddof 1, fp64) that `of` selects, over all ranks. Returns 1 for BatchStd::none or
/// fewer than two values. Collective.
double deviation_of_all(std::span<Rollout> rollouts, std::int32_t n, BatchStd of, dist::Collectives& world) {
  if (of == BatchStd::none) return 1;
  std::vector<double> mine;
  for (const std::span<Rollout> samples : runs_of(rollouts, n)) {
    const std::vector<Rollout*> group = choose_teaching(samples);
    const Spread spread = spread_of(group);
    if (of == BatchStd::of_centred) {
      for (const Rollout* rollout : group) mine.push_back(centred(*rollout, spread));
      continue;
    }
    for (const Rollout& rollout : samples)
      if (!rollout.verdict.dropped) mine.push_back(rollout.reward);
  }
  const Spread all = spread_of_all(mine, world);
  return all.count < 2 ? 1 : all.std;
}

/// Adds weight · normalized score k to the group's advantages. Skips samples to which the score does not apply (NaN).
/// Adds nothing if all scores are equal.
void add_advantages_of(std::span<Rollout* const> group, std::size_t k, double weight) {
  std::vector<Rollout*> judged;
  std::vector<double> scores;
  for (Rollout* rollout : group) {
    if (std::isnan(rollout->verdict.scores[k])) continue;
    judged.push_back(rollout);
    scores.push_back(rollout->verdict.scores[k]);
  }
  const Spread spread = spread_of(scores);
  if (spread.is_flat) return;
  for (std::size_t i = 0; i < judged.size(); ++i)
    judged[i]->advantage += weight * ((scores[i] - spread.mean) / (spread.std + kAdvantageEps));
}

}  // namespace

std::int64_t set_advantages(std::span<Rollout> rollouts, std::int32_t n, const AdvantageSettings& settings,
                            dist::Collectives& world) {
  const double batch_std = deviation_of_all(rollouts, n, settings.estimator->batch_std, world);
  std::int64_t num_flat = 0;
  for (const std::span<Rollout> samples : runs_of(rollouts, n)) {
    const std::vector<Rollout*> group = choose_teaching(samples);
    const Spread spread = spread_of(group);
    if (spread.is_flat) ++num_flat;
    for (Rollout* rollout : group) {
      rollout->advantage = settings.estimator->advantage(
          {centred(*rollout, spread), spread.std, batch_std, static_cast<std::int32_t>(group.size()), settings.by_std});
      if (settings.positive_only) rollout->advantage = std::max(rollout->advantage, 0.0);
    }
  }
  return num_flat;
}

void set_advantages_by_score(std::span<Rollout> rollouts, std::int32_t n, std::span<const double> weights,
                             bool positive_only, dist::Collectives& world) {
  for (const std::span<Rollout> samples : runs_of(rollouts, n)) {
    const std::vector<Rollout*> group = choose_teaching(samples);
    for (std::size_t k = 0; k < weights.size(); ++k) {
      if (weights[k] != 0) add_advantages_of(group, k, weights[k]);
    }
  }
  std::vector<double> mine;
  for (const Rollout& rollout : rollouts) {
    if (rollout.in_loss) mine.push_back(rollout.advantage);
  }
  const Spread all = spread_of_all(mine, world);
  for (Rollout& rollout : rollouts) {
    if (!rollout.in_loss) continue;
    rollout.advantage = all.std > 0 ? (rollout.advantage - all.mean) / all.std : 0.0;
    if (positive_only) rollout.advantage = std::max(rollout.advantage, 0.0);
  }
}

}  // namespace qrl::rollout
