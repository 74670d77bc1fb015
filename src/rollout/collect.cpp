#include <cmath>
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

ScoreParts score_parts(const reward::Verdict& verdict, const tasks::RuleWeights& weights) {
  switch (verdict.outcome) {
    case reward::Outcome::correct:
      return {weights.correct, 0, 0};
    case reward::Outcome::wrong:
      return {weights.wrong, weights.format, weights.partial * verdict.credit};
    case reward::Outcome::no_answer:
      break;
  }
  return {weights.wrong, 0, 0};
}

void judge(std::span<Rollout> rollouts, std::int32_t n, const tasks::Verifier& verifier,
           const tasks::RuleWeights& rule_weights, const data::Tokenizer& tokenizer,
           const tasks::JudgeContext& context) {
  base::parallel_for(std::ssize(rollouts), 16, [&](base::Range range) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      Rollout& rollout = rollouts[static_cast<std::size_t>(i)];
      rollout.response = tokenizer.decode(rollout.completion.tokens);
    }
  });
  std::vector<tasks::Sample> samples;
  samples.reserve(rollouts.size());
  for (const Rollout& rollout : rollouts) {
    samples.push_back({rollout.response, rollout.prompt->gold.get(), std::ssize(samples) / n, rollout.completion.stop,
                       rollout.completion.tokens, rollout.prompt->tokens,
                       static_cast<std::int64_t>(rollout.prompt->id) * n + rollout.sample_idx});
  }
  std::vector<reward::Verdict> verdicts = verifier.judge(samples, context);
  QRL_INVARIANT(verdicts.size() == rollouts.size(), "verifier", std::to_string(rollouts.size()) + " verdicts",
                std::to_string(verdicts.size()));
  if (rollouts.empty()) return;
  const std::vector<double> weights = verifier.score_weights(rule_weights);
  for (std::size_t i = 0; i < rollouts.size(); ++i) {
    Rollout& rollout = rollouts[i];
    rollout.verdict = std::move(verdicts[i]);
    rollout.score = weighted_sum(rollout.verdict.scores, weights);
    rollout.reward = rollout.score;
  }
}

double weighted_sum(std::span<const double> scores, std::span<const double> weights) {
  QRL_INVARIANT(scores.size() == weights.size(), "verifier", std::to_string(weights.size()) + " scores",
                std::to_string(scores.size()));
  double sum = 0;
  for (std::size_t k = 0; k < weights.size(); ++k) {
    if (!std::isnan(scores[k])) sum += weights[k] * scores[k];
  }
  return sum;
}

}  // namespace qrl::rollout
