#include "tasks/keys.h"
#include "train/recipe/sections.h"

namespace qrl::train {

namespace {

using namespace config;
using enum config::OnResume;

constexpr std::int64_t kMaxBufferTokens = 1'048'576;
constexpr const char* kSelector = "reward.verifier";

using W = RewardRecipe;

std::vector<std::string> verifiers_of(const Recipe& recipe) {
  std::vector<std::string> words{recipe.reward.verifier.word()};
  for (const auto& [source, verifier] : recipe.reward.by_source) words.push_back(verifier.word());
  return words;
}

}  // namespace

void add_reward(config::Keys& keys, const config::Choices<tasks::VerifierChoice>& verifiers) {
  Section reward(keys, "reward", &Recipe::reward);
  reward.add(allow_change, "verifier", &W::verifier, option_of(verifiers), "verifier that judges responses").effective =
      verifiers_of;
  reward.add(
      allow_change, "by_source", &W::by_source,
      map_of({"data sources", is_source_name, "names must not contain control characters"}, option_of(verifiers)),
      "verifiers of specific data sources; others use reward.verifier");
  add_params(keys, allow_change, "reward", false, verifiers, kSelector, Access(&Recipe::own));
  tasks::add_rule_keys(reward.of<tasks::RuleWeights>(), verifiers);
  if (!verifiers.select(tasks::kCommandVerifier).empty())
    tasks::add_command_keys(reward.of<tasks::CommandOptions>(), verifiers);
  reward.only_with({});
  reward
      .add(allow_change, "aggregation", &W::aggregation,
           "with several scores: one advantage from their weighted sum, or the sum of each score's advantage (GDPO)")
      .needs("normalize_then_sum", "algorithm.adv_estimator", "grpo",
             "each score gets an advantage, normalized again over the batch")
      .needs("normalize_then_sum", "reward.overlong_buffer.enable", "false",
             "the length penalty is not one of the verifier's scores: let the program compute it");
  reward.of<tasks::CommandOptions>().add(free, "max_error_fraction", &tasks::CommandOptions::max_error_fraction,
                                         real(kFrom0To1), "maximum share of verifier errors before the run stops");
  using B = rollout::OverlongBuffer;
  auto buffer = reward.inner("overlong_buffer", &W::overlong_buffer);
  buffer.add(allow_change, "enable", &B::enable, "DAPO's overlong shaping: penalize long responses")
      .needs("true", "reward.overlong_buffer.len", "above 0", "set the number of tokens over which the penalty grows");
  buffer.only_with("reward.overlong_buffer.enable", "true");
  buffer
      .add(allow_change, "len", &B::len, integer(0, kMaxBufferTokens),
           "tokens before data.max_response_length over which the penalty grows from 0 to its full value")
      .needs("", "data.max_response_length", "at least reward.overlong_buffer.len", "no response has more tokens");
  buffer.add(allow_change, "penalty_factor", &B::penalty_factor, real(kPositive), "penalty at the maximum length");
  add_params(keys, allow_change, "reward", true, verifiers, kSelector, Access(&Recipe::own));
}

}  // namespace qrl::train
