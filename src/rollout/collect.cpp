#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/threads.h"
#include "rollout/rollout.h"

namespace qrl::rollout {

std::vector<Rollout> collect(types::TextSource& source, std::span<const PromptRequest> prompts, std::int32_t n,
                             const types::SamplingParams& params, types::SampleKey key) {
  std::vector<types::SampleRequest> requests;
  requests.reserve(prompts.size());
  for (const auto& [prompt, first_sample] : prompts) requests.push_back({prompt->id, prompt->tokens, first_sample, n});
  std::vector<types::Completion> completions = source.complete(requests, params, key);
  QRL_INVARIANT(completions.size() == prompts.size() * static_cast<std::size_t>(n), "text source",
                std::to_string(prompts.size() * static_cast<std::size_t>(n)) + " completions",
                std::to_string(completions.size()));
  std::vector<Rollout> rollouts(completions.size());
  for (std::size_t i = 0; i < rollouts.size(); ++i) {
    const PromptRequest& request = prompts[i / static_cast<std::size_t>(n)];
    rollouts[i].prompt = request.prompt;
    rollouts[i].sample_idx = request.first_sample + static_cast<std::int32_t>(i % static_cast<std::size_t>(n));
    rollouts[i].completion = std::move(completions[i]);
  }
  return rollouts;
}

ScoreParts score_parts(const reward::Verdict& verdict, const config::RewardRecipe& recipe) {
  switch (verdict.outcome) {
    case reward::Outcome::correct:
      return {recipe.correct, 0, 0};
    case reward::Outcome::wrong:
      return {recipe.wrong, recipe.format, recipe.partial * verdict.credit};
    case reward::Outcome::no_answer:
      break;
  }
  return {recipe.wrong, 0, 0};
}

void judge(std::span<Rollout> rollouts, const tasks::Verifier& verifier, const config::RewardRecipe& recipe,
           const data::Tokenizer& tokenizer) {
  base::parallel_for(std::ssize(rollouts), 16, [&](base::Range range) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      Rollout& rollout = rollouts[static_cast<std::size_t>(i)];
      rollout.response = tokenizer.decode(rollout.completion.tokens);
    }
  });
  std::vector<tasks::Sample> samples;
  samples.reserve(rollouts.size());
  for (const Rollout& rollout : rollouts) samples.push_back({rollout.response, rollout.prompt->gold.get()});
  std::vector<reward::Verdict> verdicts = verifier.judge(samples);
  QRL_INVARIANT(verdicts.size() == rollouts.size(), "verifier", std::to_string(rollouts.size()) + " verdicts",
                std::to_string(verdicts.size()));
  const std::vector<double> weights = tasks::score_weights(verifier, recipe);
  for (std::size_t i = 0; i < rollouts.size(); ++i) {
    Rollout& rollout = rollouts[i];
    rollout.verdict = std::move(verdicts[i]);
    QRL_INVARIANT(rollout.verdict.scores.size() == weights.size(), "verifier",
                  std::to_string(weights.size()) + " scores", std::to_string(rollout.verdict.scores.size()));
    rollout.score = 0;
    for (std::size_t k = 0; k < weights.size(); ++k) rollout.score += weights[k] * rollout.verdict.scores[k];
    rollout.reward = rollout.score;
  }
}

}  // namespace qrl::rollout
