// Owns which variables of its environment a run hands to a reward program, and where the programs in Python are that
// come with this one (apps/python).
#pragma once

#include <string>
#include <vector>

namespace qrl::tasks {

struct ProgramEnvironment {
  std::vector<std::string> variables;  ///< NAME=VALUE
  std::vector<std::string> withheld;   ///< names, in order
};

/// Gives the environment of a reward program: what programs need to run (docs/reference/reward-protocol.md), and the
/// variables of reward.env, `names`. Leaves out keys and tokens of the run's user unless named. Puts the folder of
/// qrl_reward.py first in PYTHONPATH: PREFIX/share/qrl-train/python for a program in PREFIX/bin, or apps/python beside
/// the build folder. Throws an input error for a name that is not set.
ProgramEnvironment program_environment(const std::vector<std::string>& names);

}  // namespace qrl::tasks
