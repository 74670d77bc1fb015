// Owns how a step's groups of samples come together: taking prompts, sampling, judging, dynamic sampling's choice, and
// advantages. Knows nothing of learning.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "decoder/decoder.h"
#include "rollout/rollout.h"
#include "train/run_setup.h"
#include "train/step_phases.h"

namespace qrl::train {

/// Holds a step's samples on this rank, rollout.n of each group, judged, shaped and with advantages.
struct StepGroups {
  std::vector<rollout::Rollout> rollouts;
  std::vector<std::int64_t> places;  ///< of each group among those of all ranks: the order of one process; ascending
  std::int64_t num_groups = 0;       ///< of all ranks
};

/// Sums over all samples of a step, kept or not, and over all ranks.
struct GenerationCounts {
  std::int64_t batches = 0, groups = 0, flat_groups = 0, samples = 0, verifier_errors = 0;
  std::int64_t num_judged = 0;   ///< samples that no verifier dropped
  std::int64_t kept_groups = 0;  ///< also those beyond what the step trains on
  double score_sum = 0;          ///< of the samples' scores
  double best_group_score = 0;   ///< mean score of the group that has the highest
};

/// Holds a source's output for a step.
struct RolloutBatch {
  StepGroups groups;
  GenerationCounts counts;
  decoder::DecoderStats stats;  ///< of this rank's generation
  PhaseSeconds seconds;
  std::int64_t policy_version = 0;  ///< of the weights that sampled the first token, the same on every rank
  std::int64_t prompts_drawn = 0;   ///< the data cursor after these groups: what a checkpoint of the step records
};

/// Produces a step's rollouts. Asynchronous (one-step-off, overlapped) rollouts are another source, which samples in a
/// thread of its own: tests/train/late_source_test.cpp.
class RolloutSource {
 public:
  virtual ~RolloutSource() = default;
  /// Returns the groups of step `step`, called once a step in their order. Returns nothing, with the source as before,
  /// if any rank got a stop request meanwhile. Collective.
  virtual std::optional<RolloutBatch> next(std::int64_t step) = 0;
  /// Returns when nothing is being generated: weights may be published, the decoder is free.
  virtual void drain() {}
};

/// Generates a step's groups on request, with the weights last published. Samples data.train_batch_size prompts. With
/// algorithm.filter_groups it samples data.gen_batch_size at a time until enough groups have scores that differ (DAPO's
/// dynamic sampling), and drops any surplus. The kept groups depend neither on the number of ranks nor on earlier
/// resumes. Samples are keyed by (seed, step, prompt, sample); a prompt that a step samples twice has samples of its
/// own. Throws a guard error if dynamic sampling finds too few groups (on_exhausted) or none, or if the verifier failed
/// too often.
class SamplingSource final : public RolloutSource {
 public:
  SamplingSource(const RunSetup& setup, Sampler& sampler, std::int64_t prompts_drawn);
  std::optional<RolloutBatch> next(std::int64_t step) override;

 private:
  const RunSetup& setup_;
  Sampler& sampler_;
  PromptOrder order_;
};

}  // namespace qrl::train
