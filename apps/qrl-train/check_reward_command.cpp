#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <span>

#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "base/text.h"
#include "commands.h"
#include "data/jsonl.h"
#include "data/row.h"
#include "data/row_file.h"
#include "judged_rows.h"
#include "rollout/rollout.h"
#include "tasks/alternatives.h"
#include "tasks/verifier.h"
#include "train/policy/policy.h"
#include "train/prompts/prompts.h"
#include "train/prompts/text_options.h"

namespace qrl::app {

namespace {

constexpr std::size_t kPrompts = 64;
constexpr std::size_t kNoise_bytes = 2048;
constexpr std::size_t kShownRows = 20;

struct CheckRewardArguments {
  RecipeArguments recipe;
  std::string file;
};

struct Row {
  std::string response;
  std::string kind;  ///< "ground truth", "nothing" or "noise"; "response" for a file's rows
  std::string where;
  std::shared_ptr<const types::Gold> gold;
  std::int64_t group = 0;
  std::vector<types::TokenId> tokens = {}, prompt_tokens = {};
};
using Rows = std::vector<Row>;

std::string noise(std::size_t prompt) {
  base::RandomStream random(0, base::RandomPurpose::test, prompt);
  std::string text;
  while (text.size() < kNoise_bytes) text += static_cast<char>(' ' + random.below(95));
  return text;
}

/// Makes rows from each training row, one per kind of response: its ground truth if it has one, nothing, noise.
Rows training_rows(const train::Recipe& recipe, const tasks::Verifier& verifier) {
  const data::Tokenizer tokenizer = train::make_tokenizer(recipe, train::model_config(recipe));
  const train::PromptSet set = train::load_train_prompts(recipe, tokenizer, verifier);
  Rows rows;
  for (std::size_t i = 0; i < std::min(kPrompts, set.prompts.size()); ++i) {
    const types::Prompt& prompt = set.prompts[i];
    const auto group = static_cast<std::int64_t>(i);
    const std::string where = "training row " + std::to_string(i + 1);
    const std::size_t first = rows.size();
    if (!prompt.ground_truth.empty())
      rows.push_back({tasks::first_answer(prompt.ground_truth), "ground truth", where, prompt.gold, group});
    rows.push_back({"", "nothing", where, prompt.gold, group});
    rows.push_back({noise(i), "noise", where, prompt.gold, group});
    for (Row& row : std::span(rows).subspan(first)) {
      row.tokens = response_tokens(tokenizer, row.response);
      row.prompt_tokens = prompt.tokens;
    }
  }
  return rows;
}

Rows rows_of_file(const std::string& file, const train::Recipe& recipe, const tasks::Verifier& verifier) {
  std::ifstream in = data::open_rows(file, "a JSONL file");
  const RowForm form{nullptr, data::ground_truth_names(recipe.data.ground_truth_key), true,
                     recipe.data.ground_truth_key.empty() && !verifier.needs_ground_truths()};
  const tasks::VerifierOptions options = train::verifier_options(recipe);
  Rows rows;
  std::vector<JudgedRow> judged;
  data::JsonLines lines(in, file, data::LoneSurrogate::replaced);
  while (const auto json = lines.next()) {
    const JudgedRow& row = judged.emplace_back(read_judged_row(*json, form, lines.where()));
    tasks::check_gold(verifier, options, row.question(), lines.where());
    rows.push_back({row.response, "response", lines.where(), verifier.prepare(row.question()), lines.line()});
  }
  verifier.finish_checks();
  if (verifier.wants_tokens()) add_tokens(judged, recipe);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].tokens = judged[i].tokens;
    rows[i].prompt_tokens = judged[i].prompt_tokens;
  }
  QRL_REQUIRE(!rows.empty(), file, "at least one row", "no rows");
  return rows;
}

struct Judged {
  std::vector<tasks::Verdict> verdicts;
  tasks::JudgeReport report;
};

Judged judge_all(const Rows& rows, const tasks::Verifier& verifier, bool backwards) {
  std::vector<std::size_t> order(rows.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (backwards) {
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return rows[a].group > rows[b].group; });
  }
  std::vector<tasks::Sample> samples;
  for (const std::size_t i : order) {
    const Row& row = rows[i];
    samples.push_back({.response = row.response,
                       .gold = row.gold.get(),
                       .group = row.group,
                       .tokens = row.tokens,
                       .prompt_tokens = row.prompt_tokens,
                       .index = static_cast<std::int64_t>(i)});
  }
  (void)verifier.take_report();
  const double begin_s = base::now_s();
  std::vector<tasks::Verdict> verdicts = verifier.judge(samples);
  Judged judged;
  judged.report = verifier.take_report().value_or(
      tasks::JudgeReport{.num_rows = std::ssize(samples), .seconds = base::now_s() - begin_s});
  judged.verdicts.resize(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) judged.verdicts[order[i]] = std::move(verdicts[i]);
  return judged;
}

bool is_same(const tasks::Verdict& a, const tasks::Verdict& b) {
  return a.outcome == b.outcome && a.verifier_error == b.verifier_error && a.extracted == b.extracted &&
         std::equal(a.scores.begin(), a.scores.end(), b.scores.begin(), b.scores.end(),
                    [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

std::string shown(const tasks::Verdict& verdict, const std::vector<std::string>& names) {
  if (verdict.verifier_error)
    return std::string(verdict.reason) + (verdict.detail.empty() ? "" : " (" + base::quoted(verdict.detail) + ")");
  std::string text;
  for (std::size_t k = 0; k < names.size(); ++k) {
    if (std::isnan(verdict.scores[k])) continue;
    text += (text.empty() ? "" : ", ") + names[k] + base::format(" %.6g", verdict.scores[k]);
  }
  return text;
}

void print_kinds(const Rows& rows, const Judged& judged, std::span<const double> weights) {
  struct OfKind {
    std::int64_t rows = 0, correct = 0, errors = 0;
    double sum = 0;
  };
  std::vector<std::pair<std::string, OfKind>> kinds;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto found = std::ranges::find_if(kinds, [&](const auto& k) { return k.first == rows[i].kind; });
    if (found == kinds.end()) found = kinds.insert(kinds.end(), {rows[i].kind, {}});
    OfKind& kind = found->second;
    const tasks::Verdict& verdict = judged.verdicts[i];
    ++kind.rows;
    kind.correct += verdict.outcome == reward::Outcome::correct ? 1 : 0;
    kind.errors += verdict.verifier_error ? 1 : 0;
    if (!verdict.verifier_error) kind.sum += rollout::weighted_sum(verdict.scores, weights);
  }
  std::printf("  %-14s %6s %8s %7s %10s\n", "response", "rows", "correct", "errors", "mean score");
  for (const auto& [name, kind] : kinds) {
    const double mean = kind.sum / static_cast<double>(std::max<std::int64_t>(kind.rows - kind.errors, 1));
    std::printf("  %-14s %6lld %8lld %7lld %10.4g\n", name.c_str(), static_cast<long long>(kind.rows),
                static_cast<long long>(kind.correct), static_cast<long long>(kind.errors), mean);
  }
}

void print_speed(const tasks::JudgeReport& report) {
  const double rows_per_s = static_cast<double>(report.num_rows) / std::max(report.seconds, 1e-9);
  std::printf("  %lld rows judged, %.0f rows/s", static_cast<long long>(report.num_rows), rows_per_s);
  if (!report.row_ms.empty()) {
    std::vector<double> ms = report.row_ms;
    std::ranges::sort(ms);
    const auto at = [&](double share) {
      return ms[static_cast<std::size_t>(share * static_cast<double>(ms.size() - 1))];
    };
    std::printf(", %.3g ms per row (p50), %.3g ms (p99)", at(0.5), at(0.99));
  }
  std::printf("\n");
}

void require_same(const Rows& rows, const Judged& first, const Judged& second, const std::vector<std::string>& names,
                  const train::RewardRecipe& recipe) {
  std::string lines, errors;
  std::size_t num_different = 0, num_errors = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string row = "\n  " + rows[i].where + ", " + rows[i].kind + ": ";
    const tasks::Verdict &a = first.verdicts[i], &b = second.verdicts[i];
    if (!is_same(a, b) && ++num_different <= kShownRows) lines += row + shown(a, names) + "; then " + shown(b, names);
    if (a.verifier_error && ++num_errors <= kShownRows) errors += row + shown(a, names);
  }
  QRL_REQUIRE(
      num_different == 0, "reward", "the same scores in a different order and with a different number of workers",
      std::to_string(num_different) + " of " + std::to_string(rows.size()) + " rows with different scores:" + lines);
  const auto most = recipe.max_error_fraction * static_cast<double>(rows.size());
  QRL_REQUIRE(static_cast<double>(num_errors) <= most, "reward",
              "errors in at most reward.max_error_fraction of the rows",
              std::to_string(num_errors) + " of " + std::to_string(rows.size()) + ":" + errors);
  if (num_errors > 0) std::printf("  errors:%s\n", errors.c_str());
}

/// Returns "a correct response scores 1, any other 0", for example. Built-in verifiers score so.
std::string rule_text(const train::RewardRecipe& reward) {
  std::string text = base::format("a correct response scores %g, any other %g", reward.correct, reward.wrong);
  if (reward.format != 0) text += base::format(", plus %g if its answer has the right format", reward.format);
  if (reward.partial != 0) text += base::format(", plus %g times its partial credit (0 to 1)", reward.partial);
  return text;
}

std::string weights_text(const std::vector<std::string>& names, std::span<const double> weights) {
  std::string text = "a response's score is the sum of";
  for (std::size_t k = 0; k < names.size(); ++k)
    text += (k == 0 ? " " : ", ") + names[k] + base::format(" (weight %g)", weights[k]);
  return text;
}

/// Prints what the user's program reads and what it gets, a line each.
void print_reads(const tasks::Verifier& verifier) {
  for (const auto& [name, words] : verifier.reads())
    std::printf("  reads %-24s %s\n", name.c_str(),
                words ? words->c_str() : "nothing: the first row has no value for it");
}

void check_reward(const CheckRewardArguments& arguments) {
  const train::Recipe recipe = arguments.recipe.load(arguments.file.empty(), train::RecipeUse::sampling).recipe;
  const auto verifier = tasks::make_verifier(train::verifier_options(recipe));
  verifier->show_log();
  // Is called once for each verifier, because checking the first question starts the verifier's program.
  const auto rows_for = [&](const tasks::Verifier& one) {
    return arguments.file.empty() ? training_rows(recipe, one) : rows_of_file(arguments.file, recipe, one);
  };
  const Rows rows = rows_for(*verifier);
  const Judged first = judge_all(rows, *verifier, false);
  const std::vector<std::string>& names = verifier->score_names();
  const std::vector<double> weights = verifier->score_weights(recipe.reward);
  std::printf("%s: reward.verifier %s; %s\n", arguments.recipe.file.c_str(), recipe.reward.verifier.word().c_str(),
              (verifier->is_rule() ? rule_text(recipe.reward) : weights_text(names, weights)).c_str());
  print_reads(*verifier);
  print_kinds(rows, first, weights);
  print_speed(first.report);
  std::fflush(stdout);
  tasks::VerifierOptions options = train::verifier_options(recipe);
  options.command.workers = tasks::num_workers(options.command) == 1 ? 2 : 1;
  const auto other = tasks::make_verifier(options);
  require_same(rows, first, judge_all(rows_for(*other), *other, true), names, recipe.reward);
  std::printf("  the same scores in a different order and with a different number of workers\n");
}

}  // namespace

void add_check_reward(CLI::App& check, Action& action) {
  auto arguments = std::make_shared<CheckRewardArguments>();
  CLI::App* command = check.add_subcommand(
      "reward", "judge 64 training rows of a recipe twice, answered with the ground truth, nothing and noise");
  add_recipe_arguments(*command, arguments->recipe);
  add_text(*command, "--file", arguments->file, "FILE",
           "judge this JSONL file instead; fields: response and ground_truth, as for qrl-train judge");
  set_work(*command, action, arguments, check_reward);
}

}  // namespace qrl::app
