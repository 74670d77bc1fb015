#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "decoder/decoder.h"
#include "rollout/rollout.h"
#include "train/metrics/step_metrics.h"
#include "train/policy/sampler.h"
#include "train/run_plan.h"

namespace qrl::train {

/// Holds this rank's samples of a step, rollout.n per group, with shaped rewards and advantages.
struct StepGroups {
  std::vector<rollout::Rollout> rollouts;
  std::vector<std::int64_t> places;  ///< global position of each group, as in a run of one process; ascending
  std::int64_t num_groups = 0;       ///< number of groups on all ranks
};

/// Holds sums over all samples of a step, kept or not, on all ranks.
struct GenerationCounts {
  std::int64_t batches = 0, groups = 0, flat_groups = 0, samples = 0, verifier_errors = 0;
  std::int64_t num_judged = 0;   ///< samples that no verifier dropped
  std::int64_t kept_groups = 0;  ///< groups kept by the filter, including surplus
  double score_sum = 0;
  double best_group_score = 0;  ///< highest mean score of a group
};

struct RolloutBatch {
  StepGroups groups;
  GenerationCounts counts;
  decoder::DecoderStats stats;
  PhaseSeconds seconds;
  std::int64_t policy_version = 0;  ///< version of the weights that sampled, equal on every rank
  std::int64_t prompts_drawn = 0;   ///< prompts drawn so far on all ranks, for the step's checkpoint
};

class RolloutSource {
 public:
  virtual ~RolloutSource() = default;
  /// Returns the groups of `step`; call it once per step, in order. If any rank got a stop request, returns nothing and
  /// changes nothing. Collective.
  virtual std::optional<RolloutBatch> next(std::int64_t step) = 0;
  /// Waits until no generation is running, so that weights may be published.
  virtual void drain() {}
};

/// Generates a step's groups from data.train_batch_size prompts, with the weights last published. With
/// algorithm.filter_groups (DAPO's dynamic sampling), samples data.gen_batch_size prompts at a time until enough groups
/// contain different scores, and drops the surplus. The kept groups depend neither on the number of ranks nor on
/// resumes. A sample's random numbers depend only on (seed, step, prompt, sample). Throws a guard error if the verifier
/// fails too often, or if dynamic sampling finds too few groups. With on_exhausted train_partial, one group is enough.
class SamplingSource final : public RolloutSource {
 public:
  SamplingSource(const RunContext& run, Sampler& sampler, std::int64_t prompts_drawn);
  std::optional<RolloutBatch> next(std::int64_t step) override;

 private:
  const RunContext& run_;
  Sampler& sampler_;
  PromptOrder order_;
};

}  // namespace qrl::train
