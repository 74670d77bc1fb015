#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "commands.h"
#include "data/jsonl.h"
#include "rollout/conversations.h"
#include "tasks/verifier.h"
#include "train/plan/options.h"
#include "train/policy/policy.h"
#include "train/prompts/conversations.h"
#include "train/prompts/prompts.h"
#include "train/prompts/text_options.h"
#include "types/turns.h"

namespace qrl::app {

namespace {

struct CheckEnvArguments {
  RecipeArguments recipe;
  std::int64_t row = 1;
  std::string answers;
};

/// Returns a file's answers: JSON strings, or objects with `response`, one a line.
std::vector<std::string> read_answers(const std::string& file) {
  std::ifstream in(file);
  QRL_REQUIRE(in.is_open(), "--answers", "a file that can be read", file);
  data::JsonLines lines(in, file);
  std::vector<std::string> answers;
  while (const auto line = lines.next()) {
    const bool is_row = line->is_object() && line->contains("response") && (*line)["response"].is_string();
    QRL_REQUIRE(line->is_string() || is_row, lines.where(), "a JSON string, or an object with a string `response`",
                line->type_name());
    answers.push_back((is_row ? (*line)["response"] : *line).get<std::string>());
  }
  return answers;
}

void put_text(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// Plays one conversation with given answers in place of a model's, and prints it: given text in « and ».
class GivenAnswers final : public types::TextSource {
 public:
  GivenAnswers(const data::Tokenizer& tokenizer, types::TokenId end, const std::string& file)
      : tokenizer_(tokenizer), end_(end), from_file_(!file.empty()) {
    if (from_file_) answers_ = read_answers(file);
  }

  std::vector<types::Completion> complete(std::span<const types::SampleRequest> /*requests*/,
                                          const types::SamplingParams& /*params*/, types::SampleKey /*key*/) override {
    base::fail_input("check env", "a recipe with an environment", "one without");
  }
  std::vector<types::Completion> converse(std::span<const types::SampleRequest> requests,
                                          const types::SamplingParams& params, types::SampleKey /*key*/,
                                          types::TurnPartner& partner) override {
    types::Completion sample;
    const auto shown_prompt = requests.front().prompt_tokens;
    for (bool ends = false; !ends;) {
      for (types::TurnReply& reply : partner.take_replies(true)) {
        ends = reply.ends;
        if (ends) break;
        if (num_turns_ == 0)
          put_text(spelled(reply.prompt.empty() ? std::vector<types::TokenId>(shown_prompt.begin(), shown_prompt.end())
                                                : reply.prompt));
        put_text(spelled(reply.tokens));
        append(sample, reply.tokens, 0);
        append_answer(sample, params, reply.max_tokens);
        partner.end_turn(0, sample);
      }
    }
    return {sample};
  }

 private:
  std::string spelled(const std::vector<types::TokenId>& tokens) const {
    std::string text;
    for (const types::TokenId token : tokens) text += tokenizer_.bytes_of(token, true);
    return text;
  }
  static void append(types::Completion& sample, const std::vector<types::TokenId>& tokens, std::uint8_t is_sampled) {
    sample.tokens.insert(sample.tokens.end(), tokens.begin(), tokens.end());
    sample.sampled.resize(sample.tokens.size(), is_sampled);
    sample.sampler_logprobs.resize(sample.tokens.size(), 0.0F);
    sample.versions.resize(sample.tokens.size(), 0);
  }
  std::string next_answer() {
    ++num_turns_;
    if (from_file_) {
      QRL_REQUIRE(num_turns_ <= answers_.size(), "--answers", "an answer for turn " + std::to_string(num_turns_),
                  std::to_string(answers_.size()) + " lines", "add a line, or use the keyboard");
      return answers_[num_turns_ - 1];
    }
    std::fprintf(stderr, "\nanswer of turn %zu (end with Ctrl-D, \\n is a new line)> ", num_turns_);
    std::string line;
    QRL_REQUIRE(static_cast<bool>(std::getline(std::cin, line)), "standard input", "an answer", "its end");
    for (std::size_t at = 0; (at = line.find("\\n", at)) != std::string::npos; ++at) line.replace(at, 2, "\n");
    return line;
  }
  void append_answer(types::Completion& sample, const types::SamplingParams& params, std::int64_t max_tokens) {
    std::string text = next_answer();
    std::size_t cut = std::string::npos;
    for (const std::string& stop : params.stop_strings) {
      if (const std::size_t at = text.find(stop); at != std::string::npos) cut = std::min(cut, at + stop.size());
    }
    if (cut != std::string::npos) text.resize(cut);
    std::vector<types::TokenId> tokens = tokenizer_.encode_trusted(text);
    if (cut == std::string::npos) tokens.push_back(end_);
    const auto room = static_cast<std::size_t>(max_tokens) - sample.tokens.size();
    const bool is_cut = tokens.size() > room;
    if (is_cut) tokens.resize(room);
    append(sample, tokens, 1);
    sample.stop = is_cut ? types::StopReason::length : types::StopReason::eos;
    put_text("«" + spelled(tokens) + "»");
  }

  data::Tokenizer tokenizer_;
  types::TokenId end_;
  bool from_file_;
  std::vector<std::string> answers_;
  std::size_t num_turns_ = 0;
};

void print_played(const rollout::Rollout& rollout, const std::vector<std::string>& names) {
  const rollout::Conversation& conversation = *rollout.conversation;
  std::string text = "\n\nend " + conversation.end;
  for (std::size_t i = 0; i < conversation.turns.size(); ++i) {
    const rollout::Turn& turn = conversation.turns[i];
    text += "\n  turn " + std::to_string(i + 1) + "  " + std::to_string(turn.end - turn.begin) + " tokens, stop " +
            turn.stop + (turn.calls.empty() ? "" : ", calls " + turn.calls);
  }
  const auto num_masked = std::ssize(rollout.completion.tokens) - rollout.completion.num_sampled();
  text += "\n  " + std::to_string(rollout.prompt->tokens.size()) + " tokens of the prompt, " +
          std::to_string(rollout.completion.num_sampled()) + " learned, " + std::to_string(num_masked) + " masked";
  const reward::Verdict& verdict = rollout.verdict;
  text += base::format("\n  score %g, ", rollout.score) + name_of(verdict.outcome);
  for (std::size_t k = 0; k < names.size() && k < verdict.scores.size(); ++k)
    text += ", " + names[k] + base::format(" %g", verdict.scores[k]);
  const std::string reason = verdict.detail.empty() ? std::string(verdict.reason) : verdict.detail;
  put_text(text + (reason.empty() ? "" : "\n  reason " + reason) + "\n");
}

void check_env(const CheckEnvArguments& arguments) {
  const train::Recipe recipe = arguments.recipe.load(true, train::RecipeUse::sampling).recipe;
  QRL_REQUIRE(train::has_environment(recipe), "environment.command", "a program", "none",
              "set environment.command: [python3, -m, qrl_env, \"trl:envs.py:Game\"]");
  const model::ModelConfig config = train::model_config(recipe);
  const data::Tokenizer tokenizer = train::make_tokenizer(recipe, config);
  const auto verifier = tasks::make_verifier(train::verifier_options(recipe));
  verifier->environment()->show_log();
  const train::PromptSet prompts = train::load_train_prompts(recipe, tokenizer, *verifier);
  const auto settings = train::conversation_settings(recipe, tokenizer, *verifier);
  QRL_REQUIRE(std::cmp_less_equal(arguments.row, prompts.prompts.size()), "--row",
              "1 to " + std::to_string(prompts.prompts.size()), std::to_string(arguments.row));
  const rollout::PromptRequest request[] = {{&prompts.prompts[static_cast<std::size_t>(arguments.row - 1)]}};
  const types::TokenId end = settings->bridge->end_of_turn() >= 0 ? settings->bridge->end_of_turn() : tokenizer.eos();
  GivenAnswers answers(tokenizer, end, arguments.answers);
  const tasks::JudgeContext context = {.step = 1};
  std::vector<rollout::Rollout> played =
      rollout::collect_conversations(answers, request, 1, train::train_sampling(recipe, config, tokenizer),
                                     {recipe.trainer.seed, 1}, *settings, context);
  rollout::judge(played, 1, *verifier, recipe.reward, tokenizer, context);
  print_played(played.front(), verifier->score_names());
}

}  // namespace

void add_check_env(CLI::App& check, Action& action) {
  auto arguments = std::make_shared<CheckEnvArguments>();
  CLI::App* command = check.add_subcommand(
      "env", "play one conversation with a recipe's environment, with answers from a file or the keyboard");
  add_recipe_arguments(*command, arguments->recipe);
  command->add_option("--row", arguments->row, "training row that the conversation begins with, from 1")
      ->check(between(1, std::numeric_limits<std::int32_t>::max()))
      ->capture_default_str();
  add_text(*command, "--answers", arguments->answers, "FILE",
           "answers in place of a model's: a JSON string a line, or objects with `response`; default: the keyboard");
  set_work(*command, action, arguments, check_env);
}

}  // namespace qrl::app
