#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/hub.h"
#include "base/threads.h"
#include "commands.h"
#include "data/chat_template.h"
#include "data/csv.h"
#include "data/jsonl.h"
#include "data/row.h"
#include "data/tokenizer.h"
#include "learner/tensors/cuda_library.h"
#include "learner/tensors/libraries.h"
#include "model/config.h"
#include "model/weights.h"
#include "state/safetensors.h"
#include "tasks/countdown/solver.h"
#include "tasks/countdown/verifier.h"
#include "train/policy/policy.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"

namespace qrl::app {

namespace {

enum class Search : std::uint8_t { no_countdown, too_many_numbers, solvable, unsolvable };

Search search(const data::PromptRow& row, tasks::Numbers numbers) {
  const auto truth = tasks::read_countdown_truth(row.ground_truth);
  if (!truth) return Search::no_countdown;
  if (truth->numbers.size() > tasks::kMaxCountdownNumbers) return Search::too_many_numbers;
  return tasks::solve_countdown(truth->numbers, truth->target, numbers) ? Search::solvable : Search::unsolvable;
}

/// Returns e.g. "lines 4, 17, 90": at most eight rows with result `wanted`.
std::string lines_of(const std::vector<data::PromptRow>& rows, const std::vector<Search>& results, Search wanted) {
  constexpr int kMaxNamed = 8;
  std::string lines;
  int num_named = 0;
  for (std::size_t k = 0; k < rows.size(); ++k) {
    if (results[k] != wanted) continue;
    if (++num_named > kMaxNamed) return "lines " + lines + ", …";
    lines += (lines.empty() ? "" : ", ") + std::to_string(rows[k].line);
  }
  return (num_named == 1 ? "line " : "lines ") + lines;
}

std::string describe_unsolvable_countdown(const std::vector<data::PromptRow>& rows, tasks::Numbers numbers) {
  std::vector<Search> results(rows.size());
  base::parallel_for(static_cast<std::int64_t>(rows.size()), 16, [&](base::Range range) {
    for (auto k = static_cast<std::size_t>(range.begin); k < static_cast<std::size_t>(range.end); ++k)
      results[k] = search(rows[k], numbers);
  });
  const auto count = [&](Search wanted) { return std::ranges::count(results, wanted); };
  const auto num_unsolvable = count(Search::unsolvable), num_long = count(Search::too_many_numbers);
  const auto num_rows = num_unsolvable + num_long + count(Search::solvable);
  std::string text;
  if (num_unsolvable > 0) {
    text += std::to_string(num_unsolvable) + " of " + std::to_string(num_rows) +
            " countdown rows have no solution with " +
            (numbers == tasks::Numbers::all ? "every number used once" : "any of the numbers, each used at most once") +
            ": " + lines_of(rows, results, Search::unsolvable) + "\n";
  }
  if (num_long > 0) {
    text += std::to_string(num_long) + " of " + std::to_string(num_rows) + " countdown rows have more than " +
            std::to_string(tasks::kMaxCountdownNumbers) +
            " numbers; no solution was searched for: " + lines_of(rows, results, Search::too_many_numbers) + "\n";
  }
  return text;
}

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

std::string describe_recipe(const std::string& file) {
  const train::LoadedRecipe loaded = train::load_recipe(train::keys(), file, {}, false);
  return file + ": a recipe with valid keys, types, ranges and rules (qrl-train " + file +
         " --dry-run checks the rest)";
}

std::string in_folder(const std::string& path, const std::vector<std::string>& names) {
  if (!std::filesystem::is_directory(path)) return path;
  std::string all;
  for (const std::string& name : names) {
    const std::filesystem::path file = std::filesystem::path(path) / name;
    if (std::filesystem::exists(file)) return file.string();
    all += (all.empty() ? "" : " or ") + name;
  }
  base::fail_input(path, "a folder with " + all, "no such file", "give the path of the file");
}

struct Kind {
  const char* name;
  const char* what;
  std::function<std::string(const std::string& file)> describe;
  const char* argument = "FILE|DIR";
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"safetensors", "safetensors file",
       [](const std::string& path) {
         const std::string file = in_folder(path, {kSingle, kIndex});
         return file.ends_with(kIndex) ? model::describe_index(file) : state::describe_safetensors(file);
       }},
      {"config", "Hugging Face config.json",
       [](const std::string& path) { return model::describe_config(in_folder(path, {"config.json"})); }},
      {"index", "model.safetensors.index.json and its shards",
       [](const std::string& path) {
         const auto has = [&](const char* name) { return std::filesystem::exists(std::filesystem::path(path) / name); };
         QRL_REQUIRE(has(kIndex) || !has(kSingle), path, std::string("a folder with ") + kIndex,
                     std::string("one ") + kSingle + ", which needs no index", "use qrl-train check safetensors");
         return model::describe_index(in_folder(path, {kIndex}));
       }},
      {"generation", "generation_config.json",
       [](const std::string& path) { return model::describe_generation(in_folder(path, {"generation_config.json"})); }},
      {"tokenizer", "tokenizer.json",
       [](const std::string& path) {
         const data::Tokenizer tokenizer = data::Tokenizer::load(path);
         if (std::filesystem::is_directory(path)) train::require_end_token(tokenizer, path);
         return path + ": " + tokenizer.describe();
       }},
      {"chat", "model folder's chat template",
       [](const std::string& dir) { return dir + ": " + data::describe_chat(data::Tokenizer::load(dir)); }, "DIR"},
      {"recipe", "recipe", describe_recipe, "FILE"},
  };
  return all;
}

struct RowArguments {
  std::string file, numbers = "all";
  data::RowOptions keys;
};

void add_row_arguments(CLI::App& command, RowArguments& arguments) {
  command.add_option("FILE", arguments.file, "file to check")->required();
  data::RowOptions& keys = arguments.keys;
  keys.prompt_setting = "--prompt-key";
  keys.ground_truth_setting = "--ground-truth-key";
  keys.filter_key = "--filter";
  command.add_option("--prompt-key", keys.prompt_key, "field with the prompt (data.prompt_key in a recipe)")
      ->check(not_empty());
  command
      .add_option("--ground-truth-key", keys.ground_truth_key, "field with the ground truth (data.ground_truth_key)")
      ->check(not_empty());
  command.add_option("--data-source-key", keys.data_source_key, "field with the data source (data.data_source_key)")
      ->check(not_empty());
  command.add_option("--filter", keys.filter, "condition that rows must satisfy (data.filter); may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      .add_option("--numbers", arguments.numbers, "countdown rows: which numbers a solution must use (reward.numbers)")
      ->check(one_of({"all", "subset"}))
      ->capture_default_str();
}

void describe_rows(const RowArguments& arguments, const std::string& before) {
  data::RowReader reader(arguments.keys);
  const auto rows = data::read_prompt_file(arguments.file, reader.allow_no_ground_truth(true));
  const auto numbers = arguments.numbers == "subset" ? tasks::Numbers::subset : tasks::Numbers::all;
  std::printf("%s%s\n%s", before.c_str(), data::describe_rows(rows).c_str(),
              describe_unsolvable_countdown(rows, numbers).c_str());
}

void describe_jsonl(const RowArguments& arguments) { describe_rows(arguments, ""); }

void describe_csv(const RowArguments& arguments) {
  describe_rows(arguments, data::describe_csv(arguments.file) + "; ");
}

void add_rows_check(CLI::App& check, Action& action, const char* name, const char* what,
                    void (*describe)(const RowArguments&)) {
  auto arguments = std::make_shared<RowArguments>();
  CLI::App* command = check.add_subcommand(name, std::string("check a ") + what);
  add_row_arguments(*command, *arguments);
  set_work(*command, action, arguments, describe);
}

/// Prints the libraries that a GPU needs, and the versions found. Throws an input error if a library is missing.
void describe_gpu() {
  std::string lacking;
  for (const base::LibraryReport& library : learner::gpu_libraries(true)) {
    std::printf("%s\n", library.line().c_str());
    if (!library.fits) lacking += (lacking.empty() ? "" : ", ") + library.name;
  }
  std::printf("%s (for several ranks with one GPU each)\n", learner::find_nccl().line().c_str());
  std::fflush(stdout);
  QRL_REQUIRE(lacking.empty(), "check gpu", "libraries in the versions listed above",
              "missing libraries or unsupported versions: " + lacking);
  const std::string fault = learner::gpu_fault(0);
  QRL_REQUIRE(fault.empty(), "check gpu: " + fault, "", "");
  (void)learner::load_cuda_library(0);
}

}  // namespace

void add_check(CLI::App& app, Action& action) {
  CLI::App* check = app.add_subcommand("check",
                                       "read one file as a run would; or check a GPU's libraries, a verifier, an "
                                       "environment or the gap; prints a summary, or an error with exit code 2");
  check->require_subcommand(1);
  auto file = std::make_shared<std::string>();
  for (const Kind& kind : kinds()) {
    CLI::App* command = check->add_subcommand(kind.name, std::string("check a ") + kind.what);
    command->add_option(kind.argument, *file, std::string(kind.what) + " to check")->required();
    set_work(*command, action, file,
             [&kind](const std::string& path) { std::printf("%s\n", kind.describe(base::local_model(path)).c_str()); });
  }
  CLI::App* gpu = check->add_subcommand("gpu", "check the driver and libraries that a GPU needs");
  set_work(*gpu, action, [](dist::Collectives&) { describe_gpu(); });
  add_check_reward(*check, action);
  add_check_env(*check, action);
  add_check_gap(*check, action);
  add_rows_check(*check, action, "csv", "CSV file and its rows", describe_csv);
  add_rows_check(*check, action, "jsonl", "prompt file", describe_jsonl);
}

}  // namespace qrl::app
