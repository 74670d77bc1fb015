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

void add_rule_scores(Section<RewardRecipe>& reward, const Choices<tasks::VerifierChoice>& verifiers) {
  Condition by_rules{kSelector, std::string("other than ") + kCommandVerifier + " or " + kEnvironmentVerifier};
  by_rules.advice = "reward.weights holds the weights of a program's scores: delete this key";
  reward.only_with(by_rules);
  reward.add(allow_change, "correct", &W::correct, "score of a correct response");
  reward.add(allow_change, "wrong", &W::wrong, "score of any other response");
  reward.add(allow_change, "format", &W::format,
             "added to the score of a wrong response whose answer has the right format");
  reward.only_with({});
  Key& partial = reward.add(allow_change, "partial", &W::partial,
                            "partial credit (0 to 1) of a wrong response times this is added to its score");
  only_with_options(partial, kSelector, verifiers, partial.name);
}

void add_command(Section<RewardRecipe>& reward, const Choices<tasks::VerifierChoice>& verifiers) {
  reward.only_with(kSelector, kCommandVerifier);
  Key& command =
      reward.add(allow_change, "command", &W::command, "reward program and its arguments; reads and writes JSON lines");
  command.anchor = [](Recipe& recipe, const std::filesystem::path& directory) {
    anchor_command_folder(recipe.reward.command, recipe.reward.folder, directory);
  };
  reward
      .add(allow_change, "folder", &W::folder, input_path(), "working directory of the program",
           "folder of the file that sets reward.command")
      .only_with("reward.command", "set");
  reward.add(free, "env", &W::env, list_of(variable_name()),
             "environment variables to pass to the program, in addition to PATH, HOME and the like");
  reward.add(allow_change, "after", &W::after, option_of(verifiers, {kCommandVerifier, kEnvironmentVerifier}),
             "built-in verifier to run first; each row gets its verdict", "none");
  reward.add(free, "workers", &W::workers, word_or("auto", std::int64_t{0}, integer(1, kMaxWorkers)),
             "processes of the program per rank; auto: half the rank's threads, at least 1");
  reward.add(free, "timeout_s", &W::timeout_s, real(kPositive),
             "maximum seconds per row, from the time a worker receives it");
  reward.add(free, "start_timeout_s", &W::start_timeout_s, real(kPositive),
             "maximum seconds for a worker to start, until its ready line");
  reward.add(free, "memory_mb", &W::memory_mb, integer(1), "maximum address space of a worker in MiB (RLIMIT_AS)",
             "no limit");
  reward.add(free, "in_flight", &W::in_flight, integer(1, kMaxInFlight),
             "rows a worker holds at once, for programs that wait for a server");
  reward
      .add(allow_change, "rows", &W::rows, "contents of a row: one response, or all responses to a prompt",
           "what the program's ready line says, else sample")
      .needs("group", "reward.in_flight", "1", "a worker judges one group at a time: delete it");
  reward.only_with(kSelector, std::string(kCommandVerifier) + " or " + kEnvironmentVerifier);
  Key& weights =
      reward.add(allow_change, "weights", &W::weights,
                 map_of({"score names", is_score_name, "names have 1 to 64 letters, digits and . _ - @ +"}, real(kAny)),
                 "weights of the program's scores, instead of its own; 0: only log the score");
  weights.condition.advice =
      "use reward.correct, reward.wrong, reward.format and reward.partial for a built-in verifier";
  reward.add(allow_change, "correct_at", &W::correct_at,
             "minimum first score of a correct response, if the program gives no outcome; by default the mean score "
             "measures such a run");
  reward.only_with(kSelector, kCommandVerifier);
  reward.add(allow_change, "on_error", &W::on_error,
             "what to do when judging fails: drop the response from its group and the loss, or score 0 as wrong");
}

}  // namespace

void anchor_command_folder(const std::vector<std::string>& command, std::string& folder,
                           const std::filesystem::path& directory) {
  if (command.empty() || !folder.empty()) return;
  folder = ".";
  config::anchor_path(folder, directory);
  if (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
}

void add_reward(config::Keys& keys, const config::Choices<tasks::VerifierChoice>& verifiers) {
  Section reward(keys, "reward", &Recipe::reward);
  reward.add(allow_change, "verifier", &W::verifier, option_of(verifiers), "verifier that judges responses").effective =
      verifiers_of;
  reward.add(
      allow_change, "by_source", &W::by_source,
      map_of({"data sources", is_source_name, "names must not contain control characters"}, option_of(verifiers)),
      "verifiers of specific data sources; others use reward.verifier");
  add_params(keys, allow_change, "reward", false, verifiers, kSelector, Access(&Recipe::own));
  add_rule_scores(reward, verifiers);
  if (!verifiers.select(kCommandVerifier).empty()) add_command(reward, verifiers);
  reward.only_with({});
  reward
      .add(allow_change, "aggregation", &W::aggregation,
           "with several scores: one advantage from their weighted sum, or the sum of each score's advantage (GDPO)")
      .needs("normalize_then_sum", "algorithm.adv_estimator", "grpo",
             "each score gets an advantage, normalized again over the batch")
      .needs("normalize_then_sum", "reward.overlong_buffer.enable", "false",
             "the length penalty is not one of the verifier's scores: let the program compute it");
  reward.add(free, "max_error_fraction", &W::max_error_fraction, real(kFrom0To1),
             "maximum share of verifier errors before the run stops");
  using B = decltype(W::overlong_buffer);
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
