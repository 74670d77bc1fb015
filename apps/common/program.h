// Owns a program's life: command line, ranks, command, errors and exit code.
#pragma once

#include <functional>

namespace CLI {
class App;  // forward declaration: CLI11's header adds five seconds to compiling a main.cpp
}
namespace qrl::dist {
class Collectives;
}

namespace qrl::app {

/// The chosen command's work, set by its callback and run after all ranks have connected. run_program runs it after all
/// ranks have connected.
using Action = std::function<void(dist::Collectives& world)>;

struct Program {
  const char* name;
  const char* what;  ///< the first line of --help
  void (*add_commands)(CLI::App& program, Action& action);
};

/// Add all commands of qrl-train, or of qrl-bench, in the order of --help. A program links one.
void add_commands(CLI::App& app, Action& action);
void add_benchmarks(CLI::App& program, Action& action);

/// Returns the process's exit code.
int run_program(const Program& program, int argc, char** argv);

}  // namespace qrl::app
