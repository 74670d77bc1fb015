// judge: verdicts for rows of any origin, from standard input to standard output.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "base/threads.h"
#include "commands.h"
#include "config/keys.h"
#include "data/jsonl.h"
#include "reward/verifier.h"

namespace qrl::app {

namespace {

constexpr std::size_t kRowsAtOnce = 4096;
constexpr const char* kGroundTruth = "ground_truth";

struct JudgeArguments {
  std::string verifier, profile = "auto", answer_form = "any", numbers = "all", ground_truth_key;
  bool time = false;
};

struct Row {
  std::string response, ground_truth;
};

/// For a row that lacks a field: which it has.
std::string names_of_fields(const nlohmann::json& row) {
  constexpr std::size_t kMaxNamed = 12;
  std::string names;
  std::size_t num_named = 0;
  for (const auto& [name, value] : row.items()) {
    if (++num_named > kMaxNamed) return "none; among its fields are " + names;
    names += (names.empty() ? "" : ", ") + base::quoted(name);
  }
  return names.empty() ? "no field at all" : "none; its fields are " + names;
}

/// A field of a row as text, or one of nested objects ("a.b"): null is empty, and so is a number whose digits are lost
/// (a gold answer that cannot be judged by); other values are as JSON writes them (a list of numbers).
std::string field(const nlohmann::json& row, const std::string& name, const std::string& where,
                  const char* what_to_do = "") {
  const nlohmann::json* value = data::find_field(row, name);
  QRL_REQUIRE(value != nullptr, where, "a field " + base::quoted(name), names_of_fields(row), what_to_do);
  if (value->is_null()) return "";
  if (value->is_string()) return value->get<std::string>();
  if (!value->is_number()) return value->dump();
  try {
    return data::gold_text(*value, name, where);
  } catch (const base::Error&) {
    return "";
  }
}

/// `gold_key`: the field that holds the ground truth; empty: ground_truth, or the fields of the task where it is not
/// there.
Row read_row(const nlohmann::json& row, config::VerifierName verifier, const std::string& gold_key,
             const std::string& where) {
  QRL_REQUIRE(row.is_object(), where, "a JSON object", row.type_name());
  Row out{field(row, "response", where), ""};
  const bool whole = verifier == config::VerifierName::math || !gold_key.empty() || row.contains(kGroundTruth);
  if (whole) {
    out.ground_truth = field(row, gold_key.empty() ? kGroundTruth : gold_key, where,
                             "--ground-truth-key NAME says which field holds the ground truth");
  } else if (verifier == config::VerifierName::countdown) {
    field(row, "numbers", where);
    field(row, "target", where);
    out.ground_truth = nlohmann::json{{"numbers", row["numbers"]}, {"target", row["target"]}}.dump();
  } else {
    nlohmann::json gold{{"puzzle", field(row, "puzzle", where)}};
    if (row.contains("solution") && !row["solution"].is_null()) gold["solution"] = field(row, "solution", where);
    out.ground_truth = gold.dump();
  }
  return out;
}

/// Processor time of this thread: other work on the machine does not count.
double thread_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

void print_verdicts(const std::vector<Row>& rows, const reward::Verifier& verifier, bool partial, bool time) {
  std::vector<std::string> lines(rows.size());
  base::parallel_for(static_cast<std::int64_t>(rows.size()), 16, [&](base::Range range) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const auto k = static_cast<std::size_t>(i);
      const double begin_us = thread_us();
      const reward::Verdict verdict = verifier.judge(rows[k].response, rows[k].ground_truth);
      const double taken_us = thread_us() - begin_us;
      nlohmann::ordered_json line = {{"score", verdict.outcome == reward::Outcome::correct ? 1 : 0},
                                     {"reason", verdict.reason},
                                     {"extracted", verdict.extracted}};
      if (partial) line["credit"] = verdict.credit;
      if (time) line["time_us"] = taken_us;
      lines[k] = line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    }
  });
  for (const std::string& line : lines) std::fwrite(line.data(), 1, line.size(), stdout);
}

template <class Enum>
using Names = std::vector<std::pair<std::string, Enum>>;

template <class Enum>
std::vector<std::string> keys_of(const Names<Enum>& names) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : names) keys.push_back(key);
  return keys;
}
template <class Enum>
Enum named(const Names<Enum>& names, const std::string& name) {  // checked by the command line
  return std::find_if(names.begin(), names.end(), [&](const auto& pair) { return pair.first == name; })->second;
}

void judge(const JudgeArguments& arguments, dist::Collectives& world) {
  require_one_process(world, "qrl-train judge");
  config::RewardRecipe recipe;
  recipe.verifier = named(config::verifier_names(), arguments.verifier);
  recipe.profile = named(config::math_profiles(), arguments.profile);
  recipe.answer_form = named(config::answer_forms(), arguments.answer_form);
  recipe.numbers = arguments.numbers == "subset" ? config::Numbers::subset : config::Numbers::all;
  const auto verifier = reward::make_verifier(recipe);
  std::vector<Row> rows;
  const auto print = [&] {
    print_verdicts(rows, *verifier, recipe.verifier == config::VerifierName::sudoku, arguments.time);
    rows.clear();
  };
  data::JsonLines lines(standard_input(), "standard input", data::LoneSurrogate::replaced);
  try {
    while (const auto row = lines.next()) {
      rows.push_back(read_row(*row, recipe.verifier, arguments.ground_truth_key, lines.where()));
      if (rows.size() == kRowsAtOnce) print();
    }
  } catch (const base::Error&) {
    print();  // the verdicts of the rows before it
    std::fflush(stdout);
    throw;
  }
  print();
}

}  // namespace

void add_judge(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<JudgeArguments>();
  CLI::App* command = app.add_subcommand(
      "judge",
      "verdicts for JSON lines, standard input to standard output, one a row (blank lines are none); fields: response "
      "and ground_truth (--ground-truth-key), or for countdown numbers and target, for sudoku puzzle and optionally "
      "solution");
  command->add_option("--verifier", arguments->verifier, "who judges")
      ->required()
      ->check(CLI::IsMember(keys_of(config::verifier_names())));
  command->add_option("--profile", arguments->profile, "math: where in a response its answer is (reward.profile)")
      ->check(CLI::IsMember(keys_of(config::math_profiles())))
      ->capture_default_str();
  command->add_option("--answer-form", arguments->answer_form, "math: what an answer must be (reward.answer_form)")
      ->check(CLI::IsMember(keys_of(config::answer_forms())))
      ->capture_default_str();
  command->add_option("--numbers", arguments->numbers, "countdown: which numbers must be used (reward.numbers)")
      ->check(CLI::IsMember({"all", "subset"}))
      ->capture_default_str();
  command
      ->add_option("--ground-truth-key", arguments->ground_truth_key,
                   "field that holds the ground truth, or a path to it (a.b); default: ground_truth")
      ->check(not_empty());
  command->add_flag("--time", arguments->time, "add the processor time of each verdict, in microseconds");
  command->callback([&action, arguments] {
    QRL_REQUIRE(arguments->verifier == "math" || arguments->profile == "auto", "--profile",
                "none with --verifier " + arguments->verifier, arguments->profile);
    QRL_REQUIRE(arguments->verifier == "math" || arguments->answer_form == "any", "--answer-form",
                "none with --verifier " + arguments->verifier, arguments->answer_form);
    QRL_REQUIRE(arguments->verifier == "countdown" || arguments->numbers == "all", "--numbers",
                "none with --verifier " + arguments->verifier, arguments->numbers);
    action = [arguments](dist::Collectives& world) { judge(*arguments, world); };
  });
}

}  // namespace qrl::app
