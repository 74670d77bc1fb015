// Owns the numbers a step reports about its rollouts, over all ranks. Names follow veRL's.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "dist/collectives.h"
#include "rollout/rollout.h"
#include "train/run_folder.h"

namespace qrl::train {

/// Returns the metrics of a step's rollouts, the same on every rank, from fp64 sums in their global order:
/// - critic/{score,rewards,advantages}/{mean,std,max,min};
/// - response_length/{mean,max,min,clip_ratio}, prompt_length/mean, response/seq_rep_4, data/flat_group_fraction;
/// - reward/{correct,wrong,no_answer,verifier_error}_fraction;
/// - reward/{accuracy,format,partial}/{mean,std,max,min} (the parts of a rule's score) or reward/NAME/… of other
///   verifiers;
/// - reward/overlong/mean with overlong_buffer.
///
/// Samples that were not judged are in none of critic/ and reward/. `places`: the place of each group of n among those
/// of all ranks.
Metrics rollout_metrics(std::span<const rollout::Rollout> rollouts, std::int32_t n,
                        std::span<const std::int64_t> places, const config::RewardRecipe& recipe,
                        const tasks::Verifier& verifier, dist::Collectives& world);

/// Returns rollout/kept_tokens/{mean,max}: how many tokens top-k and top-p left for each sampled token. Also returns
/// rollout/kept_tokens/limited_fraction: the share of sampled tokens for which config::kMaxKeptTokens excluded some.
/// Collective.
Metrics kept_metrics(std::span<const rollout::Rollout> rollouts, dist::Collectives& world);

/// Rows of rollouts/step_N.jsonl of all ranks in the order of `places`; empty on all ranks but the first. Without a
/// step they are an evaluation's: neither step nor advantage is in them. Samples whose distribution was cut show their
/// token ids and, for each, those that could be sampled.
std::string rollout_rows(std::span<const rollout::Rollout> rollouts, std::int32_t n,
                         std::span<const std::int64_t> places, std::optional<std::int64_t> step,
                         const config::RewardRecipe& recipe, const tasks::Verifier& verifier, dist::Collectives& world);

/// perf/reward_rows_per_s, perf/reward_row_ms/{p50,p99}, perf/reward_worker_restarts and
/// reward/{timeout,crash,protocol, error}_fraction, shares of what was judged, over all ranks. Collective.
Metrics judging_metrics(const tasks::JudgeReport& report, dist::Collectives& world);

/// Returns a step's metrics from those of its updates: largest of …max, smallest of …min, last of actor/lr. Other
/// metrics are means over the updates that have them; a mini-batch of only flat groups has no tokens to measure.
Metrics combine_updates(std::span<const Metrics> updates);

/// Returns the peak resident memory of this process so far, or since reset_peak_memory, in GiB.
double peak_memory_gib();
/// Restarts the peak from the present resident memory. If Linux does not allow that, the peak stays that of the
/// process.
void reset_peak_memory();

}  // namespace qrl::train
