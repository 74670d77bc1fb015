#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "dist/collectives.h"
#include "rollout/rollout.h"
#include "train/files/run_folder.h"
#include "train/recipe/recipe.h"

namespace qrl::train {

/// Timed parts of a step.
enum class Phase : std::uint8_t { generate, judge, old_logprobs, reference_logprobs, update, publish, probe, evaluate };

using PhaseSeconds = std::map<Phase, double>;

/// Returns the metrics of a step's rollouts (docs/reference/metrics.md). Sums are in fp64 and in the rollouts' global
/// order, so that all ranks return the same metrics. Metrics of critic/ and reward/ exclude samples that the verifier
/// dropped. Collective.
///
/// `places`: the global position of each group of n.
Metrics rollout_metrics(std::span<const rollout::Rollout> rollouts, std::int32_t n,
                        std::span<const std::int64_t> places, const RewardRecipe& recipe,
                        const tasks::Verifier& verifier, dist::Collectives& world);

/// Returns env/ metrics of rollouts with conversations. Collective.
Metrics environment_metrics(std::span<const rollout::Rollout> rollouts, dist::Collectives& world);

/// Returns rollout/kept_tokens/{mean,max,limited_fraction}. Collective.
Metrics kept_metrics(std::span<const rollout::Rollout> rollouts, dist::Collectives& world);

/// Returns all ranks' rows of rollouts/step_N.jsonl, ordered by `places`, on the first rank only. If `step` is unset
/// (evaluation), rows have neither step nor advantage. Collective.
std::string rollout_rows(std::span<const rollout::Rollout> rollouts, std::int32_t n,
                         std::span<const std::int64_t> places, std::optional<std::int64_t> step,
                         const RewardRecipe& recipe, const tasks::Verifier& verifier, dist::Collectives& world);

/// Returns perf/reward_rows_per_s, perf/reward_row_ms/{p50,p99} and perf/reward_worker_restarts over all ranks. Adds
/// reward/{timeout,crash,protocol,error}_fraction of the judged samples. Collective.
Metrics judging_metrics(const tasks::JudgeReport& report, dist::Collectives& world);

/// Combines the metrics of a step's updates. Metrics named *max or *min keep the extreme value. actor/lr keeps the last
/// value. Other metrics are averaged over the updates that have them.
Metrics combine_updates(std::span<const Metrics> updates);

/// Returns this process's peak resident memory in GiB since reset_peak_memory.
double peak_memory_gib();
/// Restarts the peak from the current memory, if Linux allows it.
void reset_peak_memory();

}  // namespace qrl::train
