// Owns scoring a policy on held-out prompts. Knows nothing of training.
#pragma once

#include <limits>
#include <span>
#include <string>

#include "config/recipe.h"
#include "data/tokenizer.h"
#include "dist/collectives.h"
#include "rollout/rollout.h"
#include "tasks/verifier.h"
#include "train/prompts.h"
#include "train/run_folder.h"
#include "types/prompt.h"

namespace qrl::train {

/// Estimates without bias P(at least one of k samples is right) from c right ones of n: 1 − C(n−c, k)/C(n, k) (Chen et
/// al. 2021, "Evaluating large language models trained on code", eq. 1). 1 ≤ k ≤ n.
double pass_at_k(std::int64_t n, std::int64_t c, std::int64_t k);

/// Returns whether the most frequent answer of a prompt's samples is right (Wang et al. 2022, "Self-consistency"). All
/// correct samples count as one answer. A wrong sample counts for the first wrong sample whose extracted answer the
/// verifier calls the same (Verifier::same_answer). Only the first 64 different wrong answers are compared, so that
/// work is linear in the samples; later answers are compared by their text. Samples without an answer have no vote.
/// Among answers with equal votes the first one wins (our choice, so that sums stay whole numbers).
bool majority_is_right(std::span<const rollout::Rollout> samples, const tasks::Verifier& verifier);

/// Returns val/<data_source>/{mean@n, pass@k for k = 2, 4, … n, maj@n, response_length/mean, truncated_fraction} over
/// all ranks, the same on every rank. If the verifier may drop samples, error_fraction is added, and the first three
/// cover the judged samples. Prompts are divided over ranks. Samples are keyed by (seed, prompt, sample) alone. A
/// checkpoint therefore scores the same in a run, by `qrl-train eval`, and with any number of ranks. Throws Abandoned
/// like collect_or_abandon.
/// `responses` is given on all ranks or on none. The first rank's receives the responses with their verdicts as rows of
/// JSON (rollout_rows), in prompt order, for the first `max_prompts` prompts of each set.
Metrics evaluate(types::TextSource& source, std::span<const PromptSet> sets, const config::Recipe& recipe,
                 const types::SamplingParams& params, const data::Tokenizer& tokenizer, const tasks::Verifier& verifier,
                 dist::Collectives& world, std::string* responses = nullptr,
                 std::int64_t max_prompts = std::numeric_limits<std::int64_t>::max());

/// Counts the responses to the sets that this rank generates.
std::int64_t num_responses(std::span<const PromptSet> sets, const config::EvalRecipe& recipe,
                           const dist::Collectives& world);

/// Formats the metrics as a table, a line per data source.
std::string metrics_table(std::span<const PromptSet> sets, const Metrics& metrics);

/// Calls rollout::collect; throws Abandoned on every rank if any rank got a stop request meanwhile. Collective.
std::vector<rollout::Rollout> collect_or_abandon(types::TextSource& source,
                                                 std::span<const rollout::PromptRequest> prompts, std::int32_t n,
                                                 const types::SamplingParams& params, types::SampleKey key,
                                                 dist::Collectives& world);

/// Calls rollout::judge. A stop request ends it while the verifier waits, with Abandoned on every rank. Collective.
void judge_or_abandon(std::span<rollout::Rollout> rollouts, std::int32_t n, const tasks::Verifier& verifier,
                      const config::RewardRecipe& recipe, const data::Tokenizer& tokenizer, tasks::Occasion occasion,
                      dist::Collectives& world);

/// Returns "val/<data_source>/mean@<n>", the main score of a run.
std::string score_name(const std::string& data_source, const config::EvalRecipe& recipe);

}  // namespace qrl::train
