#include "command.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <system_error>

#include "base/error.h"
#include "base/text.h"
#include "cuda/engine/decode_engine.h"
#include "learner/learner.h"
#include "ops/isa.h"
#include "train/catalog.h"

namespace qrl::app {

namespace {

std::string memory_text;  // of the recipe read last

std::vector<std::string> names_of(const CLI::App& parent) {
  std::vector<std::string> names;
  for (const CLI::App* command : parent.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

std::string describe_memory(const config::Recipe& recipe) {
  const auto part = [](const char* key, std::int64_t value) { return std::string(key) + " " + std::to_string(value); };
  const std::string pages = recipe.rollout.kv_pages ? ", " + part("rollout.kv_pages", *recipe.rollout.kv_pages) +
                                                          " of " + std::to_string(recipe.rollout.page_size) + " tokens"
                                                    : std::string();
  return part("rollout.max_num_seqs", recipe.rollout.max_num_seqs) + pages + ", " +
         part("rollout.max_num_batched_tokens", recipe.rollout.max_num_batched_tokens) + ", " +
         part("data.train_batch_size", recipe.data.train_batch_size) + " x " + part("rollout.n", recipe.rollout.n) +
         ", " + part("eval.n", recipe.eval.n) + ", " + part("sft.batch_size", recipe.sft.batch_size) + ", " +
         part("actor.max_tokens_per_micro_batch", recipe.actor.max_tokens_per_micro_batch);
}

}  // namespace

config::LoadedRecipe RecipeArguments::load(bool complete) const {
  config::LoadedRecipe loaded = config::load_recipe(train::keys(), file, overrides, complete);
  set_memory_settings(describe_memory(loaded.recipe));
  return loaded;
}

void set_memory_settings(const std::string& text) {
  memory_text = text;
  base::set_making_parts(true);
}

const std::string& memory_settings() { return memory_text; }

namespace {

/// hydra's "++key=value" as --set takes it.
std::string without_pluses(const std::string& word) {
  return word.substr(std::min(word.find_first_not_of('+'), word.size()));
}

/// "qrl-train", "qrl-train data".
std::string full_name(const CLI::App& command) {
  return (command.get_parent() == nullptr ? "" : full_name(*command.get_parent()) + " ") + command.get_name();
}

}  // namespace

void refuse_command(const CLI::App& parent, const std::string& word) {
  const bool takes_recipe = parent.get_option_no_throw("RECIPE") != nullptr;
  const std::string name = full_name(parent);
  if (takes_recipe && word.find('=') != std::string::npos) {
    base::fail_input(name, "a recipe file first", base::quoted(word),
                     "type " + name + " RECIPE --set " + without_pluses(word));
  }
  const bool is_file = word.find('/') != std::string::npos || word.ends_with(".yaml") || word.ends_with(".yml");
  if (takes_recipe && is_file)
    base::fail_input(name, "a recipe file", "no such file: " + base::quoted(word), "check the path");
  const std::vector<std::string> names = names_of(parent);
  std::string known;
  for (const std::string& each : names) known += (known.empty() ? "" : ", ") + each;
  const std::string nearest = base::nearest_name(word, names);
  base::fail_input(name,
                   (takes_recipe       ? "a recipe file, or one of "
                    : names.size() > 1 ? "one of "
                                       : "") +
                       known,
                   base::quoted(word), nearest.empty() ? "" : "did you mean " + nearest + "?");
}

void check_commands(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* parent = &app;
  for (const std::string& word : words) {
    const std::vector<std::string> names = names_of(*parent);
    if (names.empty() || word.empty() || word.starts_with('-')) return;
    std::error_code error;
    const bool is_recipe = parent->get_option_no_throw("RECIPE") != nullptr && std::filesystem::exists(word, error);
    if (std::find(names.begin(), names.end(), word) == names.end()) {
      if (is_recipe) return;
      refuse_command(*parent, word);
    }
    parent = parent->get_subcommand(word);
  }
}

std::string explain_arguments(const CLI::App& app, const CLI::ParseError& error,
                              const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  const std::string name = full_name(*command);
  std::vector<std::string> options;
  for (const CLI::Option* option : command->get_options()) {
    for (const std::string& known : option->get_lnames()) options.push_back("--" + known);
  }
  std::string advice = "see " + name + " --help";
  const bool is_extra = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  for (std::size_t i = 0; is_extra && i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!word.starts_with('-') && word.find('=') != std::string::npos && (i == 0 || words[i - 1] != "--set") &&
        std::find(options.begin(), options.end(), "--set") != options.end()) {
      advice = "a key of the recipe is set by --set " + without_pluses(word);
      break;
    }
    const std::string option = word.substr(0, word.find('='));
    const bool is_known = std::find(options.begin(), options.end(), option) != options.end();
    if (!word.starts_with("--") || is_known) continue;
    const std::string nearest = base::nearest_name(option, options);
    if (!nearest.empty()) advice = "did you mean " + nearest + "?";
    break;
  }
  std::string what = error.what();
  while (what.ends_with('\n')) what.pop_back();
  std::replace(what.begin(), what.end(), '\n', ' ');
  return name + ": " + what + "; " + advice;
}

CLI::Validator between(std::int64_t low, std::int64_t high) {
  CLI::Validator range = CLI::Range(low, high);
  return range.description(std::to_string(low) + ".." + std::to_string(high));
}

CLI::Validator not_empty() {
  return {[](std::string& text) { return text.empty() ? "expected a name, got an empty text" : std::string(); }, ""};
}

CLI::Validator whole_number() {
  return {[](std::string& text) -> std::string {
            std::uint64_t value = 0;
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
            if (error == std::errc() && end == text.data() + text.size() && text == std::to_string(value)) return {};
            return "expected an integer from 0 to 2^64-1, got " + base::quoted(text);
          },
          ""};
}

void add_recipe_arguments(CLI::App& command, RecipeArguments& arguments, bool required) {
  CLI::Option* file =
      command.add_option("RECIPE", arguments.file, "recipe file (YAML); its keys are listed by qrl-train --help");
  if (required) file->required();
  add_overrides(command, arguments.overrides);
}

void add_overrides(CLI::App& command, std::vector<std::string>& overrides) {
  command.add_option("--set", overrides, "override a key of the recipe, KEY=VALUE; may be repeated")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);  // what follows the value is no second one
}

void require_new_file(const std::string& file, const std::string& option) {
  std::error_code error;
  QRL_REQUIRE(!std::filesystem::exists(std::filesystem::symlink_status(file, error)), file,
              "a file that is not there yet", "one", "delete it, or choose another " + option);
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  QRL_REQUIRE(folder.empty() || std::filesystem::is_directory(folder, error), file, "a file in a folder that exists",
              "no folder " + folder.string(), "make the folder first");
}

void require_one_process(const dist::Collectives& world, const std::string& command) {
  QRL_REQUIRE(world.size() == 1, command, "one process", std::to_string(world.size()), "run it without mpirun");
}

std::istream& standard_input() {
  std::ios::sync_with_stdio(false);
  return std::cin;
}

std::string program_name() { return "qrl-train " QRL_VERSION; }

std::string version_text() {
  return program_name() + "\n  isa: " + ops::describe_isa() + "\n  torch: " + learner::torch_version() +
         "\n  mpi: " + dist::mpi_version() + "\n  cuda: " + cuda::version();
}

}  // namespace qrl::app
