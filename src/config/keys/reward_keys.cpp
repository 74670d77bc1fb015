#include "config/keys/reward_keys.h"

#include <algorithm>

#include "config/keys/choice_keys.h"
#include "config/keys/key_types.h"

namespace qrl::config {

namespace {

constexpr std::int64_t kMaxBufferTokens = 1'048'576;
constexpr std::int64_t kMaxWorkers = 1024;
constexpr std::int64_t kMaxInFlight = 4096;
constexpr const char* kSelector = "reward.verifier";

using W = RewardRecipe;
using List = std::vector<Key>;

void count_by_source(Key& key) {
  key.condition.holds = [alone = key.condition.holds](const Recipe& recipe) {
    Recipe other = recipe;
    return alone(recipe) ||
           std::any_of(recipe.reward.by_source.begin(), recipe.reward.by_source.end(), [&](const auto& one) {
             other.reward.verifier = one.second;
             return alone(other);
           });
  };
}

std::vector<std::string> rules(const Choices& verifiers) {
  std::vector<std::string> words;
  for (const Choice* one : verifiers.all) {
    if (one->word != kCommandVerifier) words.emplace_back(one->word);
  }
  return words;
}

void add_rule_scores(Section<RewardRecipe Recipe::*>& reward, const Choices& verifiers) {
  const auto of_rules = [&](Key& key) {
    only_with(key, kSelector, rules(verifiers));
    key.condition.advice = "reward.weights has the weights of a command's scores: delete it";
  };
  of_rules(reward.add("correct", &W::correct, real(any()), "score of a correct response"));
  of_rules(reward.add("wrong", &W::wrong, real(any()), "score of any other response"));
  of_rules(reward.add("format", &W::format, real(any()), "added to a wrong response whose answer has the right form"));
  Key& partial = reward.add("partial", &W::partial, real(any()),
                            "times the partial credit of a wrong response, 0 to 1, which is added to its score");
  only_where_used(partial, kSelector, verifiers);
}

void add_command(Section<RewardRecipe Recipe::*>& reward, const Choices& verifiers) {
  const auto of_command = [&](Key& key) -> Key& {
    only_with(key, kSelector, {std::string(kCommandVerifier)});
    return key;
  };
  Key& command =
      of_command(reward.add("command", &W::command, list_of(text()),
                            "program that judges and its arguments: JSON lines on its standard input and output"));
  command.anchor = [](Recipe& recipe, const std::filesystem::path& directory) {
    if (!recipe.reward.command.empty() && recipe.reward.folder.empty()) {
      recipe.reward.folder = ".";
      anchor_path(recipe.reward.folder, directory);
      if (recipe.reward.folder.size() > 1 && recipe.reward.folder.ends_with('/')) recipe.reward.folder.pop_back();
    }
  };
  only_with(reward.add("folder", &W::folder, unset_when_empty(input_path()), "where the program runs",
                       {"that of the file which sets reward.command"}),
            "reward.command", "set", [](const Recipe& recipe) { return !recipe.reward.command.empty(); });
  of_command(reward.add("env", &W::env, list_of(variable_name()),
                        "names of variables of the environment that it has beside what programs need (PATH, HOME, …)"));
  of_command(reward.add("after", &W::after, unset_when_empty(word_of(verifiers)),
                        "built-in verifier that judges first; its verdict is in each row", {"none"}));
  of_command(reward.add("workers", &W::workers, integer_or_auto(kMaxWorkers),
                        "processes of the program for each process of the run; auto: half its threads, 1 at least"));
  of_command(reward.add("timeout_s", &W::timeout_s, real(positive()),
                        "longest judging of a row in seconds, from when a worker got it"));
  of_command(reward.add("start_timeout_s", &W::start_timeout_s, real(positive()),
                        "longest start of a worker in seconds, up to its ready line"));
  of_command(reward.add("memory_mb", &W::memory_mb, integer(1), "largest address space of a worker, MiB (RLIMIT_AS)",
                        {"no limit"}));
  of_command(reward.add("in_flight", &W::in_flight, integer(1, kMaxInFlight),
                        "rows that a worker holds at once, for judges that wait for others"));
  of_command(
      reward.add("rows", &W::rows, choice<RewardRows>({{"sample", RewardRows::sample}, {"group", RewardRows::group}}),
                 "what a row holds: one response, or all of a prompt's", {"what the program asks for, else sample"}));
  Key& weights = of_command(reward.add("weights", &W::weights, map_of(score_names(), real(any())),
                                       "weights of its scores, in place of its own defaults; 0: logged only"));
  weights.condition.advice =
      "the weights of a built-in verifier are reward.correct, reward.wrong, reward.format and reward.partial";
  of_command(
      reward.add("correct_at", &W::correct_at, real(any()),
                 "a response is correct when its first score is at least this, where the answer has no outcome"));
  of_command(
      reward.add("on_error", &W::on_error,
                 choice<OnVerifierError>({{"drop", OnVerifierError::drop}, {"wrong", OnVerifierError::wrong}}),
                 "a response whose judging failed: left out of its group and of the loss, or scored 0 as a wrong one"));
}

}  // namespace

bool judges(const Recipe& recipe, std::string_view word) {
  const auto& by_source = recipe.reward.by_source;
  return recipe.reward.verifier == word ||
         std::any_of(by_source.begin(), by_source.end(), [&](const auto& one) { return one.second == word; });
}

void add_reward(List& list, const Choices& verifiers) {
  const std::size_t first = list.size();
  Section reward(list, "reward", &Recipe::reward);
  reward.add("verifier", &W::verifier, word_of(verifiers), "who judges the responses").reset =
      [word = verifiers.standard](Recipe& recipe) { recipe.reward.verifier = word; };
  reward.add("by_source", &W::by_source, map_of(source_names(), word_of(verifiers)),
             "verifiers of some data sources; the others have reward.verifier");
  add_own(list, "reward", false, verifiers, kSelector);
  add_rule_scores(reward, verifiers);
  if (verifiers.find(kCommandVerifier) != nullptr) add_command(reward, verifiers);
  reward.add("aggregation", &W::aggregation,
             choice<RewardAggregation>({{"sum_then_normalize", RewardAggregation::sum_then_normalize},
                                        {"normalize_then_sum", RewardAggregation::normalize_then_sum}}),
             "several scores: their weighted sum has an advantage, or (GDPO) each has one, and those are summed");
  reward.add("max_error_fraction", &W::max_error_fraction, real(from_0_to_1()),
             "share of verifier errors above which the run stops");
  using B = OverlongBufferRecipe;
  auto buffer = reward.inner("overlong_buffer", &W::overlong_buffer);
  buffer.add("enable", &B::enable, boolean(), "DAPO's overlong shaping: long responses lose reward");
  only_with(buffer.add("len", &B::len, integer(0, kMaxBufferTokens),
                       "tokens before data.max_response_length over which the loss grows from 0 to the factor"),
            "reward.overlong_buffer.enable", {"true"});
  only_with(buffer.add("penalty_factor", &B::penalty_factor, real(positive()), "what a cut response loses"),
            "reward.overlong_buffer.enable", {"true"});
  add_own(list, "reward", true, verifiers, kSelector);
  for (std::size_t i = first; i < list.size(); ++i) {
    if (list[i].condition.key == kSelector) count_by_source(list[i]);
  }
}

}  // namespace qrl::config
