#include "tasks/keys.h"

#include <filesystem>

namespace qrl::tasks {

namespace {

using namespace config;
using enum config::OnResume;

constexpr const char* kSelector = "reward.verifier";
constexpr const char* kProgram = "environment.command";
constexpr std::int64_t kMaxWorkers = 1024;
constexpr std::int64_t kMaxInFlight = 4096;  // rows or conversations per worker at once
constexpr std::int64_t kMaxTurns = 1024;

/// Makes the default of `folder` that of the file which sets the command.
template <class Options>
auto folder_of_command(const Section<Options>& section) {
  return [access = section.access()](Recipe& recipe, const std::filesystem::path& directory) {
    Options& options = access(recipe);
    if (options.argv.empty() || !options.folder.empty()) return;
    options.folder = ".";
    anchor_path(options.folder, directory);
    if (options.folder.size() > 1 && options.folder.ends_with('/')) options.folder.pop_back();
  };
}

}  // namespace

void add_rule_keys(config::Section<RuleWeights> reward, const config::AnyChoices& verifiers) {
  using W = RuleWeights;
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

void add_command_keys(config::Section<CommandOptions> reward, const config::Choices<VerifierChoice>& verifiers) {
  using W = CommandOptions;
  reward.only_with(kSelector, kCommandVerifier);
  Key& command =
      reward.add(allow_change, "command", &W::argv, "reward program and its arguments; reads and writes JSON lines");
  command.anchor = folder_of_command(reward);
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

void add_environment_keys(config::Section<EnvironmentOptions> environment) {
  using E = EnvironmentOptions;
  Key& command =
      environment.add(allow_change, "command", &E::argv,
                      "program that answers the model's turns, and its arguments; reads and writes JSON lines");
  command.anchor = folder_of_command(environment);
  environment.only_with(kProgram, "set");
  environment.add(allow_change, "folder", &E::folder, input_path(), "working directory of the program",
                  "folder of the file that sets environment.command");
  environment.add(free, "env", &E::env, list_of(variable_name()),
                  "environment variables to pass to the program, in addition to PATH, HOME and the like");
  environment.add(
      allow_change, "style", &E::style,
      "chat: turns and observations are messages of the chat template; continue: an observation's text continues "
      "the response");
  environment.add(allow_change, "role", &E::role, "role of observations; user for chat templates without tools")
      .needs("user", "environment.style", "chat", "text that continues a response has no role: delete it");
  environment.add(allow_change, "max_turns", &E::max_turns, integer(1, kMaxTurns), "maximum sampled turns");
  environment.add(free, "timeout_s", &E::timeout_s, real(kPositive), "maximum seconds for the answer to a turn");
  environment.add(free, "setup_timeout_s", &E::setup_timeout_s, real(kPositive),
                  "maximum seconds for a worker to start, and for a conversation to start");
  environment.add(free, "workers", &E::workers, word_or("auto", std::int64_t{0}, integer(1, kMaxWorkers)),
                  "processes of the program per rank; auto: half the rank's threads, at least 1");
  environment.add(free, "sessions", &E::sessions, integer(1, kMaxInFlight), "conversations a worker holds at once");
  environment.add(free, "memory_mb", &E::memory_mb, integer(1), "maximum address space of a worker in MiB (RLIMIT_AS)",
                  "no limit");
  environment.add(allow_change, "on_error", &E::on_error,
                  "what to do when a conversation fails: drop it from its group and the loss, or score 0 as wrong");
}

}  // namespace qrl::tasks
