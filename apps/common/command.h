#pragma once

#include <CLI/CLI.hpp>
#include <istream>
#include <string>
#include <type_traits>
#include <vector>

#include "arguments.h"
#include "dist/collectives.h"
#include "train/recipe/load.h"

namespace qrl::app {

struct RecipeArguments {
  std::string file;
  std::vector<std::string> overrides;  ///< --set KEY=VALUE

  train::LoadedRecipe load(bool complete, train::RecipeUse use) const;
};
void add_recipe_arguments(CLI::App& command, RecipeArguments& arguments, bool required = true);
void add_overrides(CLI::App& command, std::vector<std::string>& overrides);

void add_ranks(CLI::App& command);
/// Returns the value of --ranks; 1 without it.
int num_local_ranks();
/// Without --ranks, throws like dist::require_no_other_launcher.
void require_own_launcher();

/// Returns std::cin, unsynchronized with stdio. Callers must write with stdio only.
std::istream& standard_input();

/// Names the settings that determine memory, for the out-of-memory message. Returns "" before a recipe is read.
const std::string& memory_settings();
/// Sets memory_settings(). After this call, failed allocations are input errors.
void set_memory_settings(const std::string& text);

/// Throws an input error if the file exists, or if its folder does not exist.
void require_new_file(const std::string& file, const std::string& option);

CLI::Option* add_text(CLI::App& command, const std::string& name, std::string& value, const std::string& type,
                      const std::string& meaning);
CLI::Option* add_word(CLI::App& command, const std::string& name, std::string& value,
                      const std::vector<std::string>& words, const std::string& type, const std::string& meaning);
/// Returns "--max-number" for the keys max_number and TASK.max_number.
std::string option_of(std::string_view key);
/// Adds --checkpoint, whose default is the recipe's model.
void add_checkpoint(CLI::App& command, std::string& checkpoint, const std::string& before = "");
/// Adds an integer option with bounds. If Value is a vector, commas separate its values.
template <class Value>
CLI::Option* add_integer(CLI::App& command, const std::string& name, Value& value, std::int64_t low, std::int64_t high,
                         const std::string& meaning) {
  CLI::Option* option = command.add_option(name, value, meaning)->check(between(low, high))->type_name("INT");
  return std::is_same_v<Value, std::vector<std::int64_t>> ? option->delimiter(',') : option;
}

std::string program_name();
std::string version_text();

}  // namespace qrl::app
