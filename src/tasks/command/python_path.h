// Owns where the programs in Python are that come with this one (apps/python).
#pragma once

#include <string>
#include <vector>

namespace qrl::tasks {

/// The environment of this process with the folder of qrl_reward.py first in PYTHONPATH. The folder is found from the
/// program's own place: PREFIX/share/qrl-train/python of PREFIX/bin, or apps/python beside the build folder.
std::vector<std::string> environment_with_python_path();

}  // namespace qrl::tasks
