#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/tokenizer.h"
#include "dist/collectives.h"
#include "rollout/estimators.h"
#include "tasks/verifier.h"
#include "types/batch.h"
#include "types/prompt.h"

namespace qrl::rollout {

/// Holds a sampled turn of a conversation, and what the environment answered.
struct Turn {
  std::string sampled;                     ///< its text, without an end token
  std::size_t begin = 0, end = 0;          ///< its tokens in the completion
  const char* stop = "eos";                ///< eos, stop or length
  std::optional<std::string> observation;  ///< as the model sees it; none: no turn follows
  std::string calls;                       ///< JSON list; "": none
};

/// Holds how a conversation with an environment went.
struct Conversation {
  std::vector<Turn> turns;
  /// done, max_turns, length, or the reason of a failure: timeout, crashed, protocol, error.
  std::string end;
  std::optional<reward::Verdict> verdict;  ///< the environment's, or a failure's; none: the verifier judges
  std::string judged;                      ///< text that the verifier judges
  std::size_t judged_begin = 0;            ///< its first token in the completion
  std::int64_t num_calls = 0, num_call_errors = 0;
  double wait_s = 0;  ///< time until the environment answered, summed over requests
};

struct Rollout {
  const types::Prompt* prompt = nullptr;
  std::int32_t sample_idx = 0;
  types::Completion completion;
  std::string response;
  reward::Verdict verdict;
  double score = 0;   ///< weighted sum of the verdict's scores (tasks::Verifier::score_weights)
  double reward = 0;  ///< score after shaping
  double advantage = 0;
  /// Whether the loss and its denominators include the rollout. False if it was not judged, or is the only judged
  /// sample of a larger group.
  bool in_loss = true;
  std::shared_ptr<const Conversation> conversation = nullptr;  ///< null without an environment
  std::shared_ptr<const types::Prompt> own_prompt = nullptr;   ///< `prompt` with the environment's first text, if any
};

struct PromptRequest {
  const types::Prompt* prompt = nullptr;
  std::int32_t first_sample = 0;
};

/// Samples n completions of each prompt, in prompt-major order.
std::vector<Rollout> collect(types::TextSource& source, std::span<const PromptRequest> prompts, std::int32_t n,
                             const types::SamplingParams& params, types::SampleKey key);

/// Returns requests of n samples of each prompt.
std::vector<types::SampleRequest> requests_of(std::span<const PromptRequest> prompts, std::int32_t n);
/// Returns the rollouts of these requests' completions, in prompt-major order.
std::vector<Rollout> rollouts_of(std::span<const PromptRequest> prompts, std::int32_t n,
                                 std::vector<types::Completion> completions);

/// Holds a score's parts for rollout files; their sum is the score.
struct ScoreParts {
  double accuracy = 0;  ///< reward.correct or reward.wrong
  double format = 0;    ///< reward.format if the answer is wrong; 0 if it is correct or missing
  double partial = 0;   ///< reward.partial · a wrong answer's partial credit
};
ScoreParts score_parts(const reward::Verdict& verdict, const tasks::RuleWeights& weights);

/// Decodes and judges the rollouts on all threads, as one batch of groups of n samples. Sets response, verdict, score
/// and reward. Conversations that have a verdict keep it.
void judge(std::span<Rollout> rollouts, std::int32_t n, const tasks::Verifier& verifier,
           const tasks::RuleWeights& rule_weights, const data::Tokenizer& tokenizer,
           const tasks::JudgeContext& context = {});

/// Returns Σ weight · score over a verdict's scores, in order, in fp64. Skips NaN scores.
double weighted_sum(std::span<const double> scores, std::span<const double> weights);

/// Returns DAPO's overlong penalty (Yu et al. 2025, eq. 13) with L_max = max_response_length and L_c = buffer_len: 0 up
/// to L_max − L_c tokens, then falling linearly to −1 at L_max.
double overlong_penalty(std::int64_t response_tokens, std::int64_t max_response_length, std::int64_t buffer_len);

/// DAPO's overlong shaping (reward.overlong_buffer).
struct OverlongBuffer {
  bool enable = false;
  std::int64_t len = 0;  ///< tokens
  double penalty_factor = 1;
};
void shape_overlong(std::span<Rollout> rollouts, const OverlongBuffer& buffer, std::int64_t max_response_length);

/// Returns whether a group's judged samples all have the same score before length penalties. Also returns true for
/// fewer than two judged samples. Dynamic sampling drops such groups (DAPO, eq. 11).
bool has_equal_scores(std::span<const Rollout> group);
/// Returns whether a group's judged samples are all correct or all not correct.
bool has_equal_outcomes(std::span<const Rollout> group);
/// Does the same as has_equal_scores, but compares each sample's first non-NaN score among `places`.
bool has_equal_scores_at(std::span<const Rollout> group, std::span<const std::size_t> places);

class FlatGroups {
 public:
  /// `metric`: "acc", "score", or the name of a verifier's score. Throws an input error for others.
  FlatGroups(const std::string& metric, const tasks::Verifier& verifier);
  bool is_flat(std::span<const Rollout> group) const;

 private:
  bool outcomes_ = false;
  std::vector<std::size_t> places_;  ///< indices of the scores to compare; empty: compares the weighted sum
};

struct AdvantageSettings {
  const AdvantageEstimator* estimator = nullptr;
  bool by_std = true;          ///< algorithm.norm_adv_by_std
  bool positive_only = false;  ///< if set, negative advantages become 0
};

/// Sets advantages by the estimator, and sets in_loss. Each n consecutive rollouts are a group. Standard deviations
/// have ddof 1; a group of one has mean 0 and std 1. Returns the number of groups with equal rewards, or with fewer
/// than two samples in the loss. Collective.
std::int64_t set_advantages(std::span<Rollout> rollouts, std::int32_t n, const AdvantageSettings& settings,
                            dist::Collectives& world);

/// Sets the advantages of reward.aggregation normalize_then_sum (GDPO, Liu et al. 2026, arXiv 2601.05242). Each score r
/// is normalized within its group to (r − mean)/(std + 1e-6). It becomes 0 if the group's scores are equal, or if it
/// does not apply to the sample. The weighted sums of these values are then normalized over all ranks' samples in the
/// loss. Computes in fp64 with ddof 1. Sets in_loss like set_advantages. Collective.
void set_advantages_by_score(std::span<Rollout> rollouts, std::int32_t n, std::span<const double> weights,
                             bool positive_only, dist::Collectives& world);

struct PackItem {
  std::span<const types::TokenId> prompt, response;
  std::span<const float> sampler_logprobs;  ///< [response]; empty in SFT, where log-probs count as 0
  float advantage = 0;
  std::span<const std::uint8_t> learned = {};  ///< [response]: 1 if the token is in the loss; empty: all tokens are
  const types::KeptTokens* kept = nullptr;     ///< [response], as Completion::kept; null or empty: all tokens are kept
  const types::Routes* routes = nullptr;       ///< as Completion::routes; null or empty: unknown
};

PackItem sampled_item(std::span<const types::TokenId> prompt, const types::Completion& sample, float advantage);

/// Packs items into micro-batches of at most max_tokens tokens. Throws an input error for a longer item. Items with the
/// same prompt span form a group. The group's prompt, without its last token, is packed once per micro-batch as a
/// shared prefix (types::MicroBatch). Groups are placed first-fit, the longest first. Only groups above max_tokens are
/// split. The order depends only on lengths and indices.
std::vector<types::MicroBatch> pack(std::span<const PackItem> items, std::int64_t max_tokens);

types::GlobalCounts count(std::span<const types::MicroBatch> batches);

}  // namespace qrl::rollout
