// Owns the screen of qrl-train --help, made from the texts of options and commands.
#pragma once

#include <CLI/CLI.hpp>

namespace qrl::app {

/// Groups of options and commands that the screen leaves out, or lists by name only.
inline constexpr const char* kRareOptions = "More options";
inline constexpr const char* kRareCommands = "More commands";

/// Adds --help, of at most 24 lines of 80 columns, and --help-all, which prints all options and recipe keys. Called
/// after all commands are added.
void add_help(CLI::App& program);

}  // namespace qrl::app
