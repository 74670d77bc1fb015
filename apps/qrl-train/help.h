// Owns what qrl-train --help prints: one screen, whose texts are the options' and commands' own. Knows no command.
#pragma once

#include <CLI/CLI.hpp>

namespace qrl::app {

/// The group of options and commands that the screen leaves out, or names alone.
inline constexpr const char* kRareOptions = "More options";
inline constexpr const char* kRareCommands = "More commands";

/// Gives the program --help of at most 24 lines of 80 columns, and --help-all, which prints every option of every
/// command and the keys of a recipe. Called once all commands are added.
void add_help(CLI::App& program);

}  // namespace qrl::app
