// Owns how a Python module that comes with the program is started: which Python, and the environment that finds it.
#pragma once

#include <string>
#include <vector>

namespace qrl::base {

/// Returns the Python that started the program ($QRL_PYTHON), otherwise "python3".
std::string python_program();

/// Returns this process's environment, with the folder of a shipped module first in PYTHONPATH. `file` is a file of the
/// module, relative to that folder.
std::vector<std::string> python_environment(const std::string& file);

/// Returns pointers to the texts, followed by a null pointer, for posix_spawn. The texts must outlive the pointers.
std::vector<char*> pointers_of(const std::vector<std::string>& texts);

}  // namespace qrl::base
