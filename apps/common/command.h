#pragma once

#include <CLI/CLI.hpp>
#include <istream>
#include <string>
#include <vector>

#include "arguments.h"
#include "config/reader.h"
#include "dist/collectives.h"

namespace qrl::app {

struct RecipeArguments {
  std::string file;
  std::vector<std::string> overrides;  ///< --set KEY=VALUE

  config::LoadedRecipe load(bool complete, config::RecipeUse use) const;
};
void add_recipe_arguments(CLI::App& command, RecipeArguments& arguments, bool required = true);
void add_overrides(CLI::App& command, std::vector<std::string>& overrides);

/// Adds --ranks, for commands that run as several processes.
void add_ranks(CLI::App& command);
/// Returns the parsed --ranks; 1 without it.
int num_local_ranks();

/// Returns std::cin, which reads in blocks from now on: only for commands that write with stdio.
std::istream& standard_input();

/// Returns the settings that determine memory, for the out-of-memory message; "" before a recipe is read.
const std::string& memory_settings();
/// Sets this text and makes later failed allocations input errors.
void set_memory_settings(const std::string& text);

/// Throws an input error if a file of that name exists.
void require_new_file(const std::string& file, const std::string& option);

/// Throws an input error in a job of several ranks, for one-process commands. `command`: "qrl-train eval".
void require_one_process(const dist::Collectives& world, const std::string& command);

/// Returns "qrl-train X.Y.Z".
std::string program_name();
std::string version_text();

}  // namespace qrl::app
