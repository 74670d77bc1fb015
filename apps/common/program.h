// Owns a program's life: command line, ranks, the chosen command, and what its failure says and returns. Knows no
// command.
#pragma once

#include <functional>

namespace CLI {
class App;  // not CLI11's header, which takes a main.cpp five seconds
}
namespace qrl::dist {
class Collectives;
}

namespace qrl::app {

/// The work of the chosen command; its callback sets it, run_program runs it once the ranks have met.
using Action = std::function<void(dist::Collectives& world)>;

struct Program {
  const char* name;
  const char* what;  ///< the first line of --help
  void (*add_commands)(CLI::App& program, Action& action);
};

/// All commands of qrl-train, and of qrl-bench, in the order of --help. A program is linked with one of the two.
void add_commands(CLI::App& app, Action& action);
void add_benchmarks(CLI::App& program, Action& action);

/// Runs the command that the arguments choose; returns the process's exit code.
int run_program(const Program& program, int argc, char** argv);

}  // namespace qrl::app
