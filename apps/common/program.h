#pragma once

#include <functional>
#include <memory>
#include <type_traits>

namespace CLI {
class App;  // CLI11's header is slow to compile
}
namespace qrl::dist {
class Collectives;
}

namespace qrl::app {

/// Holds the chosen command's work. The command's callback sets it; run_program calls it after all ranks connected.
using Action = std::function<void(dist::Collectives& world)>;

/// Makes `work` the command's action. `prepare` is called before the ranks connect. In a job of several ranks, the
/// action of a command without the option --ranks throws an input error.
void set_work(CLI::App& command, Action& action, const Action& work, const std::function<void()>& prepare = {});
/// Does the same for a `work` that takes the parsed arguments, and optionally the ranks.
template <class Arguments, class Work>
void set_work(CLI::App& command, Action& action, const std::shared_ptr<Arguments>& arguments, Work work,
              const std::function<void()>& prepare = {}) {
  const auto with_arguments = [arguments, work](dist::Collectives& world) {
    if constexpr (std::is_invocable_v<Work, const Arguments&>) work(*arguments);
    else work(*arguments, world);
  };
  set_work(command, action, Action(with_arguments), prepare);
}

struct Program {
  const char* name;
  const char* what;  ///< the first line of --help
  void (*add_commands)(CLI::App& program, Action& action);
};

/// Add qrl-train's commands, and qrl-bench's, in the order of --help. Each program links only its own function.
void add_commands(CLI::App& app, Action& action);
void add_benchmarks(CLI::App& program, Action& action);

/// Runs a program: connects the ranks, runs the command, reports errors. Returns the exit code.
int run_program(const Program& program, int argc, char** argv);

}  // namespace qrl::app
