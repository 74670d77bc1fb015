#pragma once

#include "action.h"

namespace qrl::app {

struct Program {
  const char* name;
  const char* what;  ///< the first line of --help
  void (*add_commands)(CLI::App& program, Action& action);
};

/// Add all commands of qrl-train, or of qrl-bench, in the order of --help. A program links one.
void add_commands(CLI::App& app, Action& action);
void add_benchmarks(CLI::App& program, Action& action);

/// Runs a program: connects the ranks, runs the command, reports errors. Returns the exit code.
int run_program(const Program& program, int argc, char** argv);

}  // namespace qrl::app
