// Owns a step's samples between sampling and learning: collecting, judging, advantages, packing. Knows neither decoder
// nor learner: text comes through types::TextSource, batches leave as types::MicroBatch.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/recipe.h"
#include "data/tokenizer.h"
#include "dist/collectives.h"
#include "rollout/estimators.h"
#include "tasks/verifier.h"
#include "types/batch.h"
#include "types/prompt.h"

namespace qrl::rollout {

struct Rollout {
  const types::Prompt* prompt = nullptr;
  std::int32_t sample_idx = 0;
  types::Completion completion;
  std::string response;  ///< decoded
  reward::Verdict verdict;
  double score = 0;   ///< the verdict's scores times their weights (tasks::score_weights)
  double reward = 0;  ///< after shaping
  double advantage = 0;
  bool teaches = true;  ///< false: in no loss and no denominator; it was not judged, or alone in its group was
};

/// A prompt with the index of its first sample: first_sample, first_sample + 1, …
struct PromptRequest {
  const types::Prompt* prompt = nullptr;
  std::int32_t first_sample = 0;
};

/// n samples of each prompt, prompt-major.
std::vector<Rollout> collect(types::TextSource& source, std::span<const PromptRequest> prompts, std::int32_t n,
                             const types::SamplingParams& params, types::SampleKey key);

/// What a verdict is worth, as rollout files show it: the parts add up to the score.
struct ScoreParts {
  double accuracy = 0;  ///< reward.correct or reward.wrong
  double format = 0;    ///< reward.format, for a wrong answer in the right form
  double partial = 0;   ///< reward.partial · partial credit, for a wrong answer
};
ScoreParts score_parts(const reward::Verdict& verdict, const config::RewardRecipe& recipe);

/// Decodes every rollout on all threads and has them judged as one batch, in groups of n, by their prompts' golds,
/// which `verifier` prepared; sets response, verdict, score and reward.
void judge(std::span<Rollout> rollouts, std::int32_t n, const tasks::Verifier& verifier,
           const config::RewardRecipe& recipe, const data::Tokenizer& tokenizer, const tasks::Occasion& occasion = {});

/// A verdict's scores times their weights, without those that are NaN; in their order, in fp64.
double weighted_sum(std::span<const double> scores, std::span<const double> weights);

/// DAPO's overlong shaping (Yu et al. 2025, eq. 13), L_max = max_response_length, L_c = buffer_len: 0 up to L_max − L_c
/// tokens, from there down to −1 at L_max, −1 beyond.
double overlong_penalty(std::int64_t response_tokens, std::int64_t max_response_length, std::int64_t buffer_len);
/// Adds penalty_factor times that to the rewards, when enabled.
void shape_overlong(std::span<Rollout> rollouts, const config::OverlongBufferRecipe& buffer,
                    std::int64_t max_response_length);

/// True when the verifier gave every judged sample of a group the same score, whatever its length cost it: such a group
/// is what dynamic sampling leaves out (DAPO, eq. 11). So is one with fewer than two judged samples.
bool has_equal_scores(std::span<const Rollout> group);
/// The same of whether samples are correct, whatever else their scores are made of.
bool has_equal_outcomes(std::span<const Rollout> group);
/// The same of one score, which stands at `places` of a verdict's scores (the first of them that applies).
bool has_equal_scores_at(std::span<const Rollout> group, std::span<const std::size_t> places);

/// What algorithm.filter_groups.metric compares in a group.
class FlatGroups {
 public:
  /// An input error for a name that is none of the verifier's scores.
  FlatGroups(const std::string& metric, const tasks::Verifier& verifier);
  bool is_flat(std::span<const Rollout> group) const;

 private:
  bool outcomes_ = false;
  std::vector<std::size_t> places_;  ///< of the score in a verdict's; empty: the sum
};

struct AdvantageSettings {
  const AdvantageEstimator* estimator = nullptr;
  bool by_std = true;          ///< algorithm.norm_adv_by_std
  bool positive_only = false;  ///< negative advantages are 0
};

/// Advantages by the estimator (algorithms.md): groups are runs of `n`, deviations have ddof 1; a group of one: mean 0,
/// std 1. Samples that were not judged are in no mean; they, and a sample that alone in its group was, do not teach.
/// Returns the number of flat groups (all rewards equal). Collective.
std::int64_t set_advantages(std::span<Rollout> rollouts, std::int32_t n, const AdvantageSettings& settings,
                            dist::Collectives& world);

/// The advantages of reward.aggregation normalize_then_sum (GDPO, Liu et al. 2026, arXiv 2601.05242): in its group each
/// score has (r − mean)/(std + 1e-6), 0 where it is flat or does not apply; those, times `weights`, are summed; from
/// the sum the mean over all samples that teach on all ranks is taken, and the rest divided by their deviation (0: 0).
/// In fp64, deviations with ddof 1. What else teaches is as set_advantages says. Collective.
void set_advantages_by_score(std::span<Rollout> rollouts, std::int32_t n, std::span<const double> weights,
                             bool positive_only, dist::Collectives& world);

/// A sequence for the learner: prompt tokens, response tokens, which sampler log-probs.
struct PackItem {
  std::span<const types::TokenId> prompt, response;
  std::span<const float> sampler_logprobs;  ///< empty: zeros (SFT)
  float advantage = 0;
  std::span<const std::uint8_t> learned = {};  ///< of each response token: whether it counts; empty: all do
};

/// Packs items into micro-batches of at most `max_tokens` tokens each (an item longer than that is an input error).
/// Items whose prompt is the very same span are a group: all of its prompt but the last token is packed once, as the
/// prefix that they continue (types::MicroBatch), and again in each further micro-batch that a group spills into.
/// Groups by total length, longest first, each where it fits first, whole if it can; within a group the longest items
/// first. The order depends on lengths and indices alone.
std::vector<types::MicroBatch> pack(std::span<const PackItem> items, std::int64_t max_tokens);

types::GlobalCounts count(std::span<const types::MicroBatch> batches);

}  // namespace qrl::rollout
