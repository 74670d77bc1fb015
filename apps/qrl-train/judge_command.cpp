// judge: verdicts for rows of any origin, from standard input to standard output.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "base/threads.h"
#include "commands.h"
#include "config/keys.h"
#include "data/jsonl.h"
#include "tasks/verifier.h"
#include "train/catalog.h"

namespace qrl::app {

namespace {

constexpr std::size_t kRowsAtOnce = 4096;
constexpr const char* kGroundTruth = "ground_truth";

/// The option of a verifier's own key of words: its default until it is given.
struct VerifierOption {
  const config::Choice* verifier = nullptr;
  const config::OwnKey* key = nullptr;
  std::string name, word;

  const config::OwnKey::Words& words() const { return std::get<config::OwnKey::Words>(key->type); }
  const std::string& standard() const { return words()[static_cast<std::size_t>(key->standard)]; }
};

struct JudgeArguments {
  std::string verifier, ground_truth_key;
  std::vector<VerifierOption> own;
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

/// `gold_key`: the field that holds the ground truth; empty: ground_truth, or the fields of the verifier's own where it
/// is not there.
Row read_row(const nlohmann::json& row, const tasks::VerifierChoice& verifier, const std::string& gold_key,
             const std::string& where) {
  QRL_REQUIRE(row.is_object(), where, "a JSON object", row.type_name());
  Row out{field(row, "response", where), ""};
  if (verifier.ground_truth_fields.empty() || !gold_key.empty() || row.contains(kGroundTruth)) {
    out.ground_truth = field(row, gold_key.empty() ? kGroundTruth : gold_key, where,
                             "--ground-truth-key NAME says which field holds the ground truth");
    return out;
  }
  nlohmann::json gold;
  for (const tasks::GroundTruthField& part : verifier.ground_truth_fields) {
    const std::string name(part.name);
    if (part.is_optional && (!row.contains(name) || row[name].is_null())) continue;
    const std::string text = field(row, name, where);
    if (part.is_text) gold[name] = text;
    else gold[name] = row[name];
  }
  out.ground_truth = gold.dump();
  return out;
}

/// Processor time of this thread: other work on the machine does not count.
double thread_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

/// The verdicts of the rows as one batch; with `times_us` a batch for each, whose processor time it gets.
std::vector<reward::Verdict> judge_rows(const std::vector<Row>& rows, const tasks::Verifier& verifier,
                                        std::vector<double>* times_us) {
  std::vector<std::shared_ptr<const types::Gold>> golds(rows.size());
  std::vector<tasks::Sample> samples(rows.size());
  base::parallel_for(std::ssize(rows), 16, [&](base::Range range) {
    for (auto k = static_cast<std::size_t>(range.begin); k < static_cast<std::size_t>(range.end); ++k) {
      golds[k] = verifier.prepare({rows[k].ground_truth});
      samples[k] = {rows[k].response, golds[k].get()};
    }
  });
  if (times_us == nullptr) return verifier.judge(samples);
  std::vector<reward::Verdict> verdicts(rows.size());
  times_us->resize(rows.size());
  base::parallel_for(std::ssize(rows), 16, [&](base::Range range) {
    for (auto k = static_cast<std::size_t>(range.begin); k < static_cast<std::size_t>(range.end); ++k) {
      const double begin_us = thread_us();
      verdicts[k] = std::move(verifier.judge(std::span(&samples[k], 1)).front());
      (*times_us)[k] = thread_us() - begin_us;
    }
  });
  return verdicts;
}

void print_verdicts(const std::vector<Row>& rows, const tasks::Verifier& verifier, bool partial, bool time) {
  std::vector<double> times_us;
  const std::vector<reward::Verdict> verdicts = judge_rows(rows, verifier, time ? &times_us : nullptr);
  std::string lines;
  for (std::size_t k = 0; k < rows.size(); ++k) {
    const reward::Verdict& verdict = verdicts[k];
    nlohmann::ordered_json line = {{"score", verdict.outcome == reward::Outcome::correct ? 1 : 0},
                                   {"reason", verdict.reason},
                                   {"extracted", verdict.extracted}};
    if (partial) line["credit"] = verdict.credit;
    if (time) line["time_us"] = times_us[k];
    lines += line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  std::fwrite(lines.data(), 1, lines.size(), stdout);
}

/// A recipe's defaults with the verifier and its settings that the command line gives.
config::Recipe recipe_of(const JudgeArguments& arguments) {
  config::Recipe recipe = train::keys().defaults();
  recipe.reward.verifier = arguments.verifier;
  for (const VerifierOption& option : arguments.own) {
    const auto index = std::find(option.words().begin(), option.words().end(), option.word) - option.words().begin();
    recipe.own.set(*option.key, static_cast<double>(index));
  }
  return recipe;
}

void judge(const JudgeArguments& arguments, dist::Collectives& world) {
  require_one_process(world, "qrl-train judge");
  const config::Recipe recipe = recipe_of(arguments);
  const auto verifier = tasks::make_verifier(recipe);
  const auto& choice =
      static_cast<const tasks::VerifierChoice&>(*train::keys().catalog().verifiers.find(arguments.verifier));
  const bool partial = std::find(choice.uses.begin(), choice.uses.end(), "reward.partial") != choice.uses.end();
  std::vector<Row> rows;
  const auto print = [&] {
    print_verdicts(rows, *verifier, partial, arguments.time);
    rows.clear();
  };
  data::JsonLines lines(standard_input(), "standard input", data::LoneSurrogate::replaced);
  try {
    while (const auto row = lines.next()) {
      rows.push_back(read_row(*row, choice, arguments.ground_truth_key, lines.where()));
      if (rows.size() == kRowsAtOnce) print();
    }
  } catch (const base::Error&) {
    print();  // the verdicts of the rows before it
    std::fflush(stdout);
    throw;
  }
  print();
}

/// "--answer-form" of the key reward.answer_form.
std::string option_of(const config::OwnKey& key) {
  std::string name = "--" + key.name.substr(key.name.rfind('.') + 1);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

/// The options of all verifiers' own keys; settings of verifiers that are not asked are refused.
void add_own_options(CLI::App* command, JudgeArguments& arguments) {
  for (const config::Choice* verifier : train::keys().catalog().verifiers.all) {
    for (const config::OwnKey& key : verifier->keys) {
      VerifierOption option{verifier, &key, option_of(key), ""};
      option.word = option.standard();
      arguments.own.push_back(std::move(option));
    }
  }
  for (VerifierOption& option : arguments.own) {  // in place: the options of the command refer to them
    command
        ->add_option(option.name, option.word,
                     std::string(option.verifier->word) + ": " + option.key->meaning + " (" + option.key->name + ")")
        ->check(CLI::IsMember(option.words()))
        ->capture_default_str();
  }
}

/// ", or for countdown numbers and target": the fields that verifiers read in place of a whole ground truth.
std::string own_fields() {
  std::string text;
  for (const config::Choice* choice : train::keys().catalog().verifiers.all) {
    const auto& fields = static_cast<const tasks::VerifierChoice&>(*choice).ground_truth_fields;
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
  for (const config::Choice* verifier : train::keys().catalog().verifiers.all) words.emplace_back(verifier->word);
  return words;
}

}  // namespace

void add_judge(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<JudgeArguments>();
  CLI::App* command = app.add_subcommand(
      "judge",
      "verdicts for JSON lines, standard input to standard output, one a row (blank lines are none); fields: response "
      "and ground_truth (--ground-truth-key)" +
          own_fields());
  command->add_option("--verifier", arguments->verifier, "who judges")
      ->required()
      ->check(CLI::IsMember(verifier_words()));
  add_own_options(command, *arguments);
  command
      ->add_option("--ground-truth-key", arguments->ground_truth_key,
                   "field that holds the ground truth, or a path to it (a.b); default: ground_truth")
      ->check(not_empty());
  command->add_flag("--time", arguments->time, "add the processor time of each verdict, in microseconds");
  command->callback([&action, arguments] {
    for (const VerifierOption& option : arguments->own) {
      QRL_REQUIRE(arguments->verifier == option.verifier->word || option.word == option.standard(), option.name,
                  "none with --verifier " + arguments->verifier, option.word);
    }
    action = [arguments](dist::Collectives& world) { judge(*arguments, world); };
  });
}

}  // namespace qrl::app
