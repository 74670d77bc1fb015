#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include "data/tokenizer.h"
#include "dist/collectives.h"
#include "rollout/conversations.h"
#include "rollout/rollout.h"
#include "tasks/verifier.h"
#include "train/files/run_folder.h"
#include "train/metrics/step_metrics.h"
#include "train/policy/sampler.h"
#include "train/prompts/prompts.h"
#include "train/recipe/recipe.h"
#include "train/run_plan.h"
#include "types/prompt.h"

namespace qrl::train {

/// Returns the unbiased estimate of pass@k from c right samples of n: 1 − C(n−c, k)/C(n, k), 1 ≤ k ≤ n (Chen et al.
/// 2021, "Evaluating large language models trained on code", eq. 1).
double pass_at_k(std::int64_t n, std::int64_t c, std::int64_t k);

/// Returns whether the most frequent answer of a prompt's samples is right (Wang et al. 2022, "Self-consistency"). All
/// correct samples count as one answer. Wrong answers are equal if their texts are, or if Verifier::same_answer says
/// so. Only the first 64 distinct wrong answers are compared by same_answer. Samples without an answer do not vote. The
/// earliest answer wins a tie.
bool majority_is_right(std::span<const rollout::Rollout> samples, const tasks::Verifier& verifier);

/// Returns the metrics of held_out_names for each set, the same on every rank. mean@n, pass@k, maj@n and scores cover
/// only judged samples. A score that applies to no sample is NaN. A sample's random numbers depend only on (seed,
/// prompt, sample). Throws Cancelled like collect_or_cancel. `responses` must be given on all ranks or none. On the
/// `conversations` is null without an environment. On the
/// first rank, JSON rows (rollout_rows) of each set's first `max_prompts` prompts are appended to it, in prompt order.
Metrics evaluate(types::TextSource& source, std::span<const PromptSet> sets, const Recipe& recipe,
                 const types::SamplingParams& params, const data::Tokenizer& tokenizer, const tasks::Verifier& verifier,
                 const rollout::ConversationSettings* conversations, dist::Collectives& world,
                 std::string* responses = nullptr, std::int64_t max_prompts = std::numeric_limits<std::int64_t>::max());

std::int64_t num_responses(std::span<const PromptSet> sets, const EvalRecipe& recipe, const dist::Collectives& world);

/// Returns a row a set. Leaves out the metrics by which a set is not measured (report::Measures::counts).
std::string metrics_table(std::span<const PromptSet> sets, const Metrics& metrics);

/// Calls rollout::collect, or with `conversations`, rollout::collect_conversations. Throws Cancelled on every rank if
/// any rank got a stop request. Collective.
std::vector<rollout::Rollout> collect_or_cancel(types::TextSource& source,
                                                std::span<const rollout::PromptRequest> prompts, std::int32_t n,
                                                const types::SamplingParams& params, types::SampleKey key,
                                                const rollout::ConversationSettings* conversations,
                                                tasks::JudgeContext context, dist::Collectives& world);

/// Calls rollout::judge. A stop request ends the wait for the verifier and throws Cancelled on every rank. Collective.
void judge_or_cancel(std::span<rollout::Rollout> rollouts, std::int32_t n, const tasks::Verifier& verifier,
                     const tasks::RuleWeights& weights, const data::Tokenizer& tokenizer, tasks::JudgeContext context,
                     dist::Collectives& world);

class HeldOutEvaluation {
 public:
  HeldOutEvaluation(const RunContext& run, Sampler& sampler) : run_(run), sampler_(sampler) {}

  bool due_before_training() const;
  /// Is true every eval.freq steps and after the last step, if held-out prompts exist.
  bool due_after(std::int64_t step) const;
  /// Returns scores of the published weights, and with eval.dump writes validation/step_N.jsonl. Returns nothing if any
  /// rank got a stop request. Collective.
  std::optional<Metrics> run(std::int64_t step, PhaseSeconds& seconds);

 private:
  const RunContext& run_;
  Sampler& sampler_;
};

}  // namespace qrl::train
