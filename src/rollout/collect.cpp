#include <cmath>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/threads.h"
#include "rollout/rollout.h"

namespace qrl::rollout {

std::vector<Rollout> collect(types::TextSource& source, std::span<const PromptRequest> prompts, std::int32_t n,
                             const types::SamplingParams& params, types::SampleKey key) {
  return rollouts_of(prompts, n, source.complete(requests_of(prompts, n), params, key));
}

std::vector<types::SampleRequest> requests_of(std::span<const PromptRequest> prompts, std::int32_t n) {
  std::vector<types::SampleRequest> requests;
  requests.reserve(prompts.size());
  for (const auto& [prompt, first_sample] : prompts) requests.push_back({prompt->id, prompt->tokens, first_sample, n});
  return requests;
}

std::vector<Rollout> rollouts_of(std::span<const PromptRequest> prompts, std::int32_t n,
                                 std::vector<types::Completion> completions) {
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
  std::vector<std::size_t> judged;  // index of each sample's rollout
  samples.reserve(rollouts.size());
  for (std::size_t i = 0; i < rollouts.size(); ++i) {
    const Rollout& rollout = rollouts[i];
    const Conversation* conversation = rollout.conversation.get();
    if (conversation != nullptr && conversation->verdict) continue;
    const std::span<const types::TokenId> tokens = rollout.completion.tokens;
    judged.push_back(i);
    samples.push_back({conversation == nullptr ? rollout.response : conversation->judged, rollout.prompt->gold.get(),
                       static_cast<std::int64_t>(i) / n, rollout.completion.stop,
                       tokens.subspan(conversation == nullptr ? 0 : conversation->judged_begin), rollout.prompt->tokens,
                       static_cast<std::int64_t>(rollout.prompt->id) * n + rollout.sample_idx});
  }
  std::vector<reward::Verdict> verdicts = verifier.judge(samples, context);
  QRL_INVARIANT(verdicts.size() == samples.size(), "verifier", std::to_string(samples.size()) + " verdicts",
                std::to_string(verdicts.size()));
  if (rollouts.empty()) return;
  for (std::size_t k = 0; k < judged.size(); ++k) rollouts[judged[k]].verdict = std::move(verdicts[k]);
  const std::vector<double> weights = verifier.score_weights(rule_weights);
  for (Rollout& rollout : rollouts) {
    if (rollout.conversation != nullptr && rollout.conversation->verdict)
      rollout.verdict = *rollout.conversation->verdict;
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
