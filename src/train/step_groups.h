// Owns how a step's groups of samples come together: drawing prompts, sampling, judging, dynamic sampling's choice, and
// advantages. Knows nothing of learning.
#pragma once

#include <optional>
#include <vector>

#include "rollout/rollout.h"
#include "train/prompts.h"
#include "train/run_folder.h"
#include "train/session.h"

namespace qrl::train {

struct RunParts;

/// A step's samples on this rank, rollout.n of each group, judged, shaped and with advantages.
struct StepGroups {
  std::vector<rollout::Rollout> rollouts;
  std::vector<std::int64_t> places;  ///< of each group among those of all ranks: the order of one process; ascending
  std::int64_t num_groups = 0;       ///< of all ranks
};

/// Samples the step's groups: data.train_batch_size prompts, or with algorithm.filter_groups data.gen_batch_size at a
/// time until that many groups have scores that differ (DAPO's dynamic sampling; those beyond are dropped). What is
/// kept depends neither on the number of ranks nor on how the run got here: samples are keyed by (seed, step, prompt,
/// sample), a prompt that a step samples again having samples of its own. Nothing, with `order` as before, when any
/// rank got a stop request meanwhile. A guard error when dynamic sampling finds too few (on_exhausted), or none at all,
/// and when the verifier failed too often. Adds timings and counts to `metrics`. Collective.
std::optional<StepGroups> sample_groups(const RunParts& parts, const PromptSet& prompts, std::int64_t step,
                                        PromptOrder& order, Sampler& sampler, Metrics& metrics);

}  // namespace qrl::train
