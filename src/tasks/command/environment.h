// Owns the environment of a reward program: the variables that it inherits from the run, and the folder of this
// project's Python modules (apps/python).
#pragma once

#include <string>
#include <vector>

namespace qrl::tasks {

struct ProgramEnvironment {
  std::vector<std::string> variables;  ///< NAME=VALUE
  std::vector<std::string> withheld;   ///< sorted names
};

/// Returns the environment of a reward program: the variables that programs need (docs/reference/reward-protocol.md),
/// and those in `names` (reward.env). Other variables, such as the user's keys and tokens, are left out. PYTHONPATH
/// begins with the folder of qrl_reward.py: PREFIX/share/qrl-train/python for a program in PREFIX/bin, or apps/python
/// next to the build folder. Throws an input error for a name that is not set.
ProgramEnvironment program_environment(const std::vector<std::string>& names);

}  // namespace qrl::tasks
