#include "train/recipe/sections.h"

namespace qrl::train {

namespace {

using namespace config;
using enum config::OnResume;

constexpr const char* kProgram = "environment.command";
constexpr std::int64_t kMaxTurns = 1024;
constexpr std::int64_t kMaxTurnTokens = 1'048'576;

void add_program(Section<EnvironmentRecipe>& environment) {
  using E = EnvironmentRecipe;
  Key& command =
      environment.add(allow_change, "command", &E::command,
                      "program that answers the model's turns, and its arguments; reads and writes JSON lines");
  command.anchor = [](Recipe& recipe, const std::filesystem::path& directory) {
    anchor_command_folder(recipe.environment.command, recipe.environment.folder, directory);
  };
  environment.only_with(kProgram, "set");
  environment.add(allow_change, "folder", &E::folder, input_path(), "working directory of the program",
                  "folder of the file that sets environment.command");
  environment.add(free, "env", &E::env, list_of(variable_name()),
                  "environment variables to pass to the program, in addition to PATH, HOME and the like");
}

void add_turns(Section<EnvironmentRecipe>& environment) {
  using E = EnvironmentRecipe;
  environment
      .add(allow_change, "style", &E::style,
           "chat: turns and observations are messages of the chat template; continue: an observation's text continues "
           "the response")
      .needs("chat", "rollout.stop", "default",
             "a turn ends with the chat template's end token: set environment.style: continue, or delete rollout.stop")
      .needs("chat", "eval.stop", "default",
             "a turn ends with the chat template's end token: set environment.style: continue, or delete eval.stop")
      .needs("chat", "data.chat_template", "other than \"plain\"", "set environment.style: continue");
  environment.add(allow_change, "role", &E::role, "role of observations; user for chat templates without tools")
      .needs("user", "environment.style", "chat", "text that continues a response has no role: delete it");
  environment.add(allow_change, "max_turns", &E::max_turns, integer(1, kMaxTurns), "maximum sampled turns");
  environment.add(allow_change, "max_turn_tokens", &E::max_turn_tokens, integer(1, kMaxTurnTokens),
                  "maximum tokens per sampled turn; a turn cut there ends the conversation",
                  "what data.max_response_length leaves");
  environment.add(allow_change, "max_observation_tokens", &E::max_observation_tokens, integer(16, kMaxTurnTokens),
                  "maximum tokens per observation; longer ones are cut");
  environment.add(allow_change, "truncate", &E::truncate,
                  "part of a long observation that is left out: the middle, the left (its beginning), or the right");
}

}  // namespace

void add_environment(config::Keys& keys) {
  using E = EnvironmentRecipe;
  Section environment(keys, "environment", &Recipe::environment);
  add_program(environment);
  add_turns(environment);
  environment.add(free, "timeout_s", &E::timeout_s, real(kPositive), "maximum seconds for the answer to a turn");
  environment.add(free, "setup_timeout_s", &E::setup_timeout_s, real(kPositive),
                  "maximum seconds for a worker to start, and for a conversation to start");
  environment.add(free, "workers", &E::workers, word_or("auto", std::int64_t{0}, integer(1, kMaxWorkers)),
                  "processes of the program per rank; auto: half the rank's threads, at least 1");
  environment.add(free, "sessions", &E::sessions, integer(1, kMaxInFlight), "conversations a worker holds at once");
  environment.add(free, "memory_mb", &E::memory_mb, integer(1), "maximum address space of a worker in MiB (RLIMIT_AS)",
                  "no limit");
  environment.add(allow_change, "judge", &E::judge,
                  "what reward.verifier judges: the last turn, or the whole conversation behind the prompt");
  environment.add(allow_change, "on_error", &E::on_error,
                  "what to do when a conversation fails: drop it from its group and the loss, or score 0 as wrong");
}

}  // namespace qrl::train
