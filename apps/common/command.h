// Owns how a subcommand joins a program's command line: a command's file adds its options and sets the action to run.
// Knows nothing of what the commands do.
#pragma once

#include <CLI/CLI.hpp>
#include <istream>
#include <string>
#include <vector>

#include "arguments.h"
#include "config/reader.h"
#include "dist/collectives.h"
#include "program.h"

namespace qrl::app {

/// Arguments that every command with a recipe takes.
struct RecipeArguments {
  std::string file;
  std::vector<std::string> overrides;  ///< --set KEY=VALUE

  config::LoadedRecipe load(bool complete, config::RecipeUse use) const;
};
void add_recipe_arguments(CLI::App& command, RecipeArguments& arguments, bool required = true);
/// --set alone.
void add_overrides(CLI::App& command, std::vector<std::string>& overrides);

/// std::cin, read in blocks from now on, not byte by byte; only for commands that write by stdio.
std::istream& standard_input();

/// The settings that decide how much memory the command takes, for the message when memory runs out; "" before a recipe
/// was read.
const std::string& memory_settings();
/// Sets them in a command's own words. From here on an allocation that fails is an input error.
void set_memory_settings(const std::string& text);

/// An input error when there is a file (or a folder, or a link) of that name: nothing is overwritten.
void require_new_file(const std::string& file, const std::string& option);

/// An input error under mpirun, for commands that work in one process. `command`: "qrl-train eval".
void require_one_process(const dist::Collectives& world, const std::string& command);

/// "qrl-train 0.1.0".
std::string program_name();
/// The lines of --version: version, instruction sets, LibTorch, MPI, CUDA.
std::string version_text();

}  // namespace qrl::app
