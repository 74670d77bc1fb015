#include "action.h"

#include "arguments.h"
#include "base/error.h"
#include "dist/collectives.h"

namespace qrl::app {

void set_work(CLI::App& command, Action& action, const Action& work, const std::function<void()>& prepare) {
  const std::string name = command.get_option_no_throw("--ranks") == nullptr ? full_name(command) : "";
  command.callback([&action, work, prepare, name] {
    if (prepare) prepare();
    action = [work, name](dist::Collectives& world) {
      QRL_REQUIRE(name.empty() || world.size() == 1, name, "one process", std::to_string(world.size()),
                  "run it without --ranks or mpirun");
      work(world);
    };
  });
}

}  // namespace qrl::app
