#pragma once

#include <string>

namespace qrl::base {

/// Returns the folder `in_source` of the program's source tree, or PREFIX/share/qrl-train/`installed` of an install.
/// Empty if neither holds `file`.
std::string shipped_folder(const std::string& in_source, const std::string& installed, const std::string& file);

/// Returns whether the program is a wheel's: PACKAGE/bin/qrl-train, beside PACKAGE/launch.py.
bool is_in_wheel();

}  // namespace qrl::base
