// Owns a program's life: command line, ranks, the chosen command, and what its failure says and returns. Knows no
// command.
#pragma once

#include <CLI/CLI.hpp>

#include "command.h"

namespace qrl::app {

struct Program {
  const char* name;
  const char* what;  ///< the first line of --help
  void (*add_commands)(CLI::App& program, Action& action);
};

/// Runs the command that the arguments choose; returns the process's exit code.
int run_program(const Program& program, int argc, char** argv);

}  // namespace qrl::app
