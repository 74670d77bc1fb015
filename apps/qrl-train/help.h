#pragma once

#include <CLI/CLI.hpp>

namespace qrl::app {

/// Two groups: options that --help omits, and commands that --help lists by name only.
inline constexpr const char* kRareOptions = "More options";
inline constexpr const char* kRareCommands = "More commands";

/// Adds --help of at most 24 lines, and --help-all with all options and recipe keys. Call it after adding all commands.
void add_help(CLI::App& program);

}  // namespace qrl::app
