// Keys that are texts and maps are in config/keys/reward_keys.cpp.
#include "tasks/task.h"

#include "tasks/command/verifier.h"

namespace qrl::tasks {

namespace {

std::unique_ptr<Verifier> make(const VerifierOptions& options) {
  const std::string& after = options.command.after;
  return std::make_unique<CommandVerifier>(options.command, after.empty() ? nullptr : make_verifier_of(options, after));
}

}  // namespace

extern const Task command_task;
const Task command_task{{}, {{.word = "command", .what = "a program of your own"}, make, "what a program judges", {}}};

}  // namespace qrl::tasks
