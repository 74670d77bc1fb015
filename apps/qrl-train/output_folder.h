#pragma once

#include <functional>
#include <string>

namespace qrl::app {

/// Throws an input error unless `dir` (--out) is new or an empty folder in a place that can be written.
void require_output_folder(const std::string& dir);

/// Creates the folder (new or empty) and calls `write`. If `write` throws, empties the folder.
void write_folder(const std::string& dir, const std::function<void()>& write);

}  // namespace qrl::app
