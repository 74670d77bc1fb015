#include "config/keys/sections.h"

namespace qrl::config {

namespace {

using enum OnResume;

constexpr std::int64_t kMaxBufferTokens = 1'048'576;
constexpr std::int64_t kMaxWorkers = 1024;
constexpr std::int64_t kMaxInFlight = 4096;
constexpr const char* kSelector = "reward.verifier";

using W = RewardRecipe;

std::vector<std::string> verifiers_of(const Recipe& recipe) {
  std::vector<std::string> words{recipe.reward.verifier.word()};
  for (const auto& [source, verifier] : recipe.reward.by_source) words.push_back(verifier.word());
  return words;
}

void add_rule_scores(Section<RewardRecipe Recipe::*>& reward, const Choices<tasks::VerifierChoice>& verifiers) {
  Condition by_rules = condition_of(kSelector, std::string("other than ") + kCommandVerifier);
  by_rules.advice = "reward.weights has the weights of a command's scores: delete it";
  reward.only_with(by_rules);
  reward.add(allow_change, "correct", &W::correct, "score of a correct response");
  reward.add(allow_change, "wrong", &W::wrong, "score of any other response");
  reward.add(allow_change, "format", &W::format, "added to a wrong response whose answer has the right form");
  reward.only_with({});
  Key& partial = reward.add(allow_change, "partial", &W::partial,
                            "times the partial credit of a wrong response, 0 to 1, which is added to its score");
  only_with_options(partial, kSelector, verifiers, partial.name);
}

void add_command(Section<RewardRecipe Recipe::*>& reward, const Choices<tasks::VerifierChoice>& verifiers) {
  reward.only_with(kSelector, kCommandVerifier);
  Key& command = reward.add(allow_change, "command", &W::command,
                            "program that judges and its arguments: JSON lines on its standard input and output");
  command.anchor = [](Recipe& recipe, const std::filesystem::path& directory) {
    if (!recipe.reward.command.empty() && recipe.reward.folder.empty()) {
      recipe.reward.folder = ".";
      anchor_path(recipe.reward.folder, directory);
      if (recipe.reward.folder.size() > 1 && recipe.reward.folder.ends_with('/')) recipe.reward.folder.pop_back();
    }
  };
  reward
      .add(allow_change, "folder", &W::folder, input_path(), "where the program runs",
           "that of the file which sets reward.command")
      .only_with("reward.command", "set");
  reward.add(free, "env", &W::env, list_of(variable_name()),
             "names of variables of the environment that it has beside what programs need (PATH, HOME, …)");
  reward.add(allow_change, "after", &W::after, option_of(verifiers, kCommandVerifier),
             "built-in verifier that judges first; its verdict is in each row", "none");
  reward.add(free, "workers", &W::workers, word_or("auto", std::int64_t{0}, integer(1, kMaxWorkers)),
             "processes of the program for each process of the run; auto: half its threads, 1 at least");
  reward.add(free, "timeout_s", &W::timeout_s, real(kPositive),
             "longest judging of a row in seconds, from when a worker got it");
  reward.add(free, "start_timeout_s", &W::start_timeout_s, real(kPositive),
             "longest start of a worker in seconds, up to its ready line");
  reward.add(free, "memory_mb", &W::memory_mb, integer(1), "largest address space of a worker, MiB (RLIMIT_AS)",
             "no limit");
  reward.add(free, "in_flight", &W::in_flight, integer(1, kMaxInFlight),
             "rows that a worker holds at once, for judges that wait for others");
  reward
      .add(allow_change, "rows", &W::rows, "what a row holds: one response, or all of a prompt's",
           "what the program asks for, else sample")
      .needs("group", "reward.in_flight", "1", "a worker has one group at a time: delete it");
  Key& weights =
      reward.add(allow_change, "weights", &W::weights,
                 map_of({"score names", is_score_name, "names have 1 to 64 letters, digits and . _ - @ +"}, real(kAny)),
                 "weights of its scores, in place of its own defaults; 0: logged only");
  weights.condition.advice =
      "the weights of a built-in verifier are reward.correct, reward.wrong, reward.format and reward.partial";
  reward.add(allow_change, "correct_at", &W::correct_at,
             "a response is correct when its first score is at least this, where the answer has no outcome");
  reward.add(allow_change, "on_error", &W::on_error,
             "a response whose judging failed: left out of its group and of the loss, or scored 0 as a wrong one");
}

}  // namespace

void add_reward(List& list, const Choices<tasks::VerifierChoice>& verifiers) {
  Section reward(list, "reward", &Recipe::reward);
  reward.add(allow_change, "verifier", &W::verifier, option_of(verifiers), "who judges the responses").effective =
      verifiers_of;
  reward.add(
      allow_change, "by_source", &W::by_source,
      map_of({"data sources", is_source_name, "names are texts without control characters"}, option_of(verifiers)),
      "verifiers of some data sources; the others have reward.verifier");
  add_params(list, allow_change, "reward", false, verifiers, kSelector);
  add_rule_scores(reward, verifiers);
  if (!verifiers.select(kCommandVerifier).empty()) add_command(reward, verifiers);
  reward.only_with({});
  reward
      .add(allow_change, "aggregation", &W::aggregation,
           "several scores: their weighted sum has an advantage, or (GDPO) each has one, and those are summed")
      .needs("normalize_then_sum", "algorithm.adv_estimator", "grpo",
             "it has advantages of its own: each score's, then the batch's")
      .needs("normalize_then_sum", "reward.overlong_buffer.enable", "false",
             "a penalty for length is no score of the verifier: have the command give one");
  reward.add(free, "max_error_fraction", &W::max_error_fraction, real(kFrom0To1),
             "share of verifier errors above which the run stops");
  using B = decltype(W::overlong_buffer);
  auto buffer = reward.inner("overlong_buffer", &W::overlong_buffer);
  buffer.add(allow_change, "enable", &B::enable, "DAPO's overlong shaping: long responses lose reward")
      .needs("true", "reward.overlong_buffer.len", "above 0", "say over how many tokens the loss of reward grows");
  buffer.only_with("reward.overlong_buffer.enable", "true");
  buffer
      .add(allow_change, "len", &B::len, integer(0, kMaxBufferTokens),
           "tokens before data.max_response_length over which the loss grows from 0 to the factor")
      .needs("", "data.max_response_length", "at least reward.overlong_buffer.len", "no response has more tokens");
  buffer.add(allow_change, "penalty_factor", &B::penalty_factor, real(kPositive), "what a cut response loses");
  add_params(list, allow_change, "reward", true, verifiers, kSelector);
}

}  // namespace qrl::config
