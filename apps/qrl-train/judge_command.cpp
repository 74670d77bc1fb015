#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/threads.h"
#include "commands.h"
#include "data/jsonl.h"
#include "data/row.h"
#include "judged_rows.h"
#include "rollout/rollout.h"
#include "tasks/keys.h"
#include "tasks/verifier.h"
#include "train/prompts/text_options.h"
#include "train/recipe/catalog.h"

namespace qrl::app {

namespace {

constexpr std::size_t kRowsAtOnce = 4096;

/// Holds the option for a verifier's key. `word` is the option's value, initially the default.
struct VerifierOption {
  const config::Option* verifier = nullptr;
  const config::Param* key = nullptr;
  std::string name, word;

  const config::Param::Words& words() const { return std::get<config::Param::Words>(key->type); }
  const std::string& default_word() const { return std::get<std::string>(key->default_value); }
};

struct JudgeArguments {
  RecipeArguments recipe;
  std::string verifier, ground_truth_key;
  std::vector<VerifierOption> own;
  bool time = false;
};

double thread_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

std::vector<reward::Verdict> judge_timed(const std::vector<JudgedRow>& rows, const tasks::Verifier& verifier,
                                         std::vector<double>& times_us) {
  std::vector<reward::Verdict> verdicts(rows.size());
  times_us.resize(rows.size());
  base::parallel_for(std::ssize(rows), 16, [&](base::Range range) {
    for (auto k = static_cast<std::size_t>(range.begin); k < static_cast<std::size_t>(range.end); ++k) {
      const auto gold = verifier.prepare(rows[k].question());
      const tasks::Sample sample{rows[k].response, gold.get()};
      const double begin_us = thread_us();
      verdicts[k] = std::move(verifier.judge(std::span(&sample, 1)).front());
      times_us[k] = thread_us() - begin_us;
    }
  });
  return verdicts;
}

void print_line(const nlohmann::ordered_json& line, std::string& lines) {
  lines += line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void print_verdicts(std::vector<JudgedRow>& rows, const tasks::Verifier& verifier, const train::Recipe& recipe,
                    bool partial, bool time) {
  std::vector<double> times_us;
  const std::vector<reward::Verdict> verdicts =
      time ? judge_timed(rows, verifier, times_us) : judge_rows(rows, verifier, recipe);
  std::string lines;
  for (std::size_t k = 0; k < rows.size(); ++k) {
    const reward::Verdict& verdict = verdicts[k];
    nlohmann::ordered_json line = {{"score", verdict.outcome == reward::Outcome::correct ? 1 : 0},
                                   {"reason", verdict.reason},
                                   {"extracted", verdict.extracted}};
    if (partial) line["credit"] = verdict.credit;
    if (time) line["time_us"] = times_us[k];
    print_line(line, lines);
  }
  std::fwrite(lines.data(), 1, lines.size(), stdout);
}

void print_scores(std::vector<JudgedRow>& rows, const tasks::Verifier& verifier, const train::Recipe& recipe) {
  const tasks::RuleWeights weights = recipe.reward;
  const std::vector<reward::Verdict> verdicts = judge_rows(rows, verifier, recipe);
  std::string lines;
  for (const reward::Verdict& verdict : verdicts) {
    nlohmann::ordered_json line = {{"score", rollout::weighted_sum(verdict.scores, verifier.score_weights(weights))},
                                   {"outcome", name_of(verdict.outcome)},
                                   {"reason", verdict.detail.empty() ? std::string(verdict.reason) : verdict.detail},
                                   {"extracted", verdict.extracted}};
    if (verdict.verifier_error) line["error"] = verdict.reason;
    for (std::size_t k = 0; k < verdict.scores.size(); ++k) {  // a score that does not apply becomes null
      const double score = verdict.scores[k];
      nlohmann::ordered_json& shown = line["scores"][verifier.score_names()[k]];
      if (!std::isnan(score)) shown = score;
    }
    print_line(line, lines);
  }
  std::fwrite(lines.data(), 1, lines.size(), stdout);
}

train::Recipe recipe_of(const JudgeArguments& arguments) {
  if (!arguments.recipe.file.empty()) return arguments.recipe.load(false, train::RecipeUse::sampling).recipe;
  train::Recipe recipe = train::keys().defaults();
  recipe.reward.verifier = train::keys().catalog().verifiers.select(arguments.verifier);
  for (const VerifierOption& option : arguments.own) recipe.own.set(*option.key, option.word);
  return recipe;
}

void judge(const JudgeArguments& arguments) {
  const train::Recipe recipe = recipe_of(arguments);
  const bool by_recipe = !arguments.recipe.file.empty();
  const auto verifier = tasks::make_verifier(train::verifier_options(recipe));
  verifier->show_log();
  const tasks::VerifierChoice& choice = *recipe.reward.verifier;
  const bool partial = std::ranges::find(choice.uses, "reward.partial") != choice.uses.end();
  const std::string& key = arguments.ground_truth_key;
  const bool is_named = !key.empty() || !recipe.data.ground_truth_key.empty();
  const RowForm form{is_named ? nullptr : &choice,
                     !key.empty() ? std::vector{key}
                     : by_recipe  ? data::ground_truth_names(recipe.data.ground_truth_key)
                                  : std::vector<std::string>{"ground_truth"},
                     by_recipe, !is_named && !verifier->needs_ground_truths()};
  std::vector<JudgedRow> rows;
  bool any = false;
  const auto print = [&] {
    if (by_recipe) print_scores(rows, *verifier, recipe);
    else print_verdicts(rows, *verifier, recipe, partial, arguments.time);
    rows.clear();
  };
  data::JsonLines lines(standard_input(), "standard input", data::LoneSurrogate::replaced);
  try {
    while (const auto row = lines.next()) {
      any = true;
      rows.push_back(read_judged_row(*row, form, lines.where()));
      if (rows.size() == kRowsAtOnce) print();
    }
  } catch (const base::Error&) {
    print();  // prints the verdicts of the rows before the error
    std::fflush(stdout);
    throw;
  }
  QRL_REQUIRE(any, "standard input", "one row or more", "none", "pipe JSON lines into the command");
  print();
}

/// Adds the options of all verifiers. Options of verifiers that are not used are rejected after parsing.
void add_own_options(CLI::App* command, JudgeArguments& arguments) {
  for (const config::Option* verifier : train::keys().catalog().verifiers.all()) {
    for (const config::Param& key : verifier->params) {
      VerifierOption option{verifier, &key, option_of(key.name), ""};
      option.word = option.default_word();
      arguments.own.push_back(std::move(option));
    }
  }
  for (VerifierOption& option : arguments.own) {  // the options keep references to the elements
    command
        ->add_option(option.name, option.word,
                     std::string(option.verifier->word) + ": " + option.key->meaning + " (" + option.key->name + ")")
        ->check(one_of(option.words()))
        ->capture_default_str();
  }
}

/// Returns the end of a help text. It lists the verifiers with ground-truth fields of their own, and these fields, such
/// as numbers and target for `countdown`.
std::string own_fields() {
  std::string text;
  for (const tasks::VerifierChoice* choice : train::keys().catalog().verifiers.typed()) {
    const auto& fields = choice->ground_truth_fields;
    if (fields.empty()) continue;
    text += (text.empty() ? ", or for " : ", for ") + std::string(choice->word);
    for (const tasks::GroundTruthField& field : fields) {
      text += (&field == &fields.front() ? " "
               : field.is_optional       ? " and optionally "
                                         : " and ") +
              std::string(field.name);
    }
  }
  return text;
}

std::vector<std::string> verifier_words() {
  std::vector<std::string> words;
  for (const config::Option* verifier : train::keys().catalog().verifiers.all()) {
    if (verifier->word != tasks::kCommandVerifier) words.emplace_back(verifier->word);  // `command` needs a recipe
  }
  return words;
}

}  // namespace

void add_judge(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<JudgeArguments>();
  CLI::App* command = app.add_subcommand("judge",
                                         "print a verdict for each JSON line of standard input; blank lines are "
                                         "skipped; fields: response and ground_truth (--ground-truth-key)" +
                                             own_fields());
  command->add_option("--verifier", arguments->verifier, "verifier to use")->check(one_of(verifier_words()));
  add_text(*command, "--recipe", arguments->recipe.file, "FILE",
           "use this recipe's verifier and weights instead of --verifier; prints all scores");
  add_overrides(*command, arguments->recipe.overrides);
  add_own_options(command, *arguments);
  command
      ->add_option("--ground-truth-key", arguments->ground_truth_key,
                   "field with the ground truth, or a path to it (a.b); default: ground_truth, or with --recipe the "
                   "fields that its training reads (data.ground_truth_key)")
      ->check(not_empty());
  command->add_flag("--time", arguments->time, "add the CPU time of each verdict, in microseconds");
  set_work(*command, action, arguments, judge, [arguments] {
    const bool by_recipe = !arguments->recipe.file.empty();
    QRL_REQUIRE(arguments->verifier.empty() == by_recipe, "qrl-train judge", "--verifier or --recipe",
                by_recipe ? "both" : "neither", "see qrl-train judge --help");
    QRL_REQUIRE(by_recipe || arguments->recipe.overrides.empty(), "--set", "--recipe as well", "no --recipe");
    QRL_REQUIRE(!by_recipe || !arguments->time, "--time", "--verifier", "--recipe",
                "use qrl-train check reward to time a recipe's verifier");
    for (const VerifierOption& option : arguments->own) {
      QRL_REQUIRE(arguments->verifier == option.verifier->word || option.word == option.default_word(), option.name,
                  by_recipe ? "no value with --recipe" : "no value with --verifier " + arguments->verifier, option.word,
                  by_recipe ? "use --set " + option.key->name + "=" + option.word : "");
    }
  });
}

}  // namespace qrl::app
