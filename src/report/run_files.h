// Owns the reading of a run folder, in which any file may be missing, incomplete or growing.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "report/rows.h"
#include "report/sessions.h"

namespace qrl::report {

struct RunFiles {
  std::filesystem::path dir;
  std::string name;
  std::string recipe_yaml;  ///< config.yaml with each value's origin; empty if missing
  Rows rows, sft_rows;
  std::vector<Session> sessions;
};

/// Reads a run folder. Throws an input error if it is no folder, or has neither config.yaml nor metric rows.
RunFiles read_run(const std::filesystem::path& dir);

/// Returns whether a process is training in the folder. It looks for the process's lock in /proc/locks and does not try
/// to lock.
bool is_running(const std::filesystem::path& dir);

/// Writes TensorBoard events files to `out`, and those of the cold start to `out`/sft.
void write_tensorboard(const RunFiles& run, const std::filesystem::path& out);

}  // namespace qrl::report
