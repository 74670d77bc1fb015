#pragma once

#include <string>
#include <vector>

namespace qrl::tasks {

struct ProgramEnvironment {
  std::vector<std::string> variables;  ///< NAME=VALUE
  std::vector<std::string> withheld;   ///< sorted names
};

/// Returns a reward program's environment: variables that programs need (docs/reference/reward-protocol.md) and `names`
/// (reward.env). The user's keys and tokens are withheld. PYTHONPATH begins with the folder of qrl_reward.py:
/// PREFIX/share/qrl-train/python, or apps/python next to the build folder. Throws an input error for an unset name.
ProgramEnvironment program_environment(const std::vector<std::string>& names);

}  // namespace qrl::tasks
