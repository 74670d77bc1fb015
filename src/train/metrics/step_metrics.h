// Owns a step's metrics of its rollouts over all ranks, with veRL's names.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "dist/collectives.h"
#include "rollout/rollout.h"
#include "train/files/run_folder.h"

namespace qrl::train {

/// Returns the metrics of a step's rollouts, the same on every rank, from fp64 sums in their global order:
/// - critic/{score,rewards,advantages}/{mean,std,max,min};
/// - response_length/{mean,max,min,clip_ratio}, prompt_length/mean, response/seq_rep_4, data/flat_group_fraction;
/// - reward/{correct,wrong,no_answer,verifier_error}_fraction;
/// - reward/{accuracy,format,partial}/{mean,std,max,min} (the parts of a rule's score) or reward/NAME/… of other
///   verifiers;
/// - reward/overlong/mean with overlong_buffer.
///
/// Unjudged samples are not in critic/ and reward/. `places`: the place of each group of n over all ranks.
Metrics rollout_metrics(std::span<const rollout::Rollout> rollouts, std::int32_t n,
                        std::span<const std::int64_t> places, const config::RewardRecipe& recipe,
                        const tasks::Verifier& verifier, dist::Collectives& world);

/// Returns rollout/kept_tokens/{mean,max}, what top-k and top-p left per sampled token, and
/// rollout/kept_tokens/limited_fraction. The last is the share of sampled tokens for which config::kMaxKeptTokens
/// excluded some. Collective.
Metrics kept_metrics(std::span<const rollout::Rollout> rollouts, dist::Collectives& world);

/// Returns all ranks' rows of rollouts/step_N.jsonl by `places`, on the first rank alone. An evaluation's, without a
/// step, have neither step nor advantage. Cut samples show token ids and the candidates of each.
std::string rollout_rows(std::span<const rollout::Rollout> rollouts, std::int32_t n,
                         std::span<const std::int64_t> places, std::optional<std::int64_t> step,
                         const config::RewardRecipe& recipe, const tasks::Verifier& verifier, dist::Collectives& world);

/// Returns perf/reward_rows_per_s, perf/reward_row_ms/{p50,p99}, perf/reward_worker_restarts and
/// reward/{timeout,crash,protocol, error}_fraction of what was judged, over all ranks. Collective.
Metrics judging_metrics(const tasks::JudgeReport& report, dist::Collectives& world);

/// Combines the metrics of a step's updates: largest of …max, smallest of …min, last of actor/lr, else means. Means
/// cover the updates that have them; a mini-batch of flat groups has no tokens to measure.
Metrics combine_updates(std::span<const Metrics> updates);

/// Returns this process's peak resident memory in GiB since reset_peak_memory.
double peak_memory_gib();
/// Restarts the peak from the present memory, if Linux allows.
void reset_peak_memory();

}  // namespace qrl::train
