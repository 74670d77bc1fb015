#pragma once

#include <functional>
#include <memory>
#include <type_traits>

namespace CLI {
class App;  // CLI11's header would add five seconds to compiling a main.cpp
}
namespace qrl::dist {
class Collectives;
}

namespace qrl::app {

/// The chosen command's work. The command's callback sets it; run_program calls it after all ranks have connected.
using Action = std::function<void(dist::Collectives& world)>;

/// Makes `work` the command's action. Calls `prepare` before the ranks connect. Without --ranks, the work throws an
/// input error in a job of several ranks.
void set_work(CLI::App& command, Action& action, const Action& work, const std::function<void()>& prepare = {});
/// Does the same for work that takes the parsed arguments and, optionally, the ranks.
template <class Arguments, class Work>
void set_work(CLI::App& command, Action& action, const std::shared_ptr<Arguments>& arguments, Work work,
              const std::function<void()>& prepare = {}) {
  const auto with_arguments = [arguments, work](dist::Collectives& world) {
    if constexpr (std::is_invocable_v<Work, const Arguments&>) work(*arguments);
    else work(*arguments, world);
  };
  set_work(command, action, Action(with_arguments), prepare);
}

}  // namespace qrl::app
