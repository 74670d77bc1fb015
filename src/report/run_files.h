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
  std::string recipe_yaml;  ///< config.yaml with each value's origin, or empty
  Rows rows, sft_rows;
  std::vector<Session> sessions;
};

/// Reads a run folder. Throws an input error if it does not exist, or has neither metric rows nor config.yaml and
/// checkpoints.
RunFiles read_run(const std::filesystem::path& dir);

/// Returns whether a process trains in the folder, by its lock in /proc/locks; takes no lock.
bool is_running(const std::filesystem::path& dir);

/// Writes TensorBoard events files to `out`, the cold start's to `out`/sft.
void write_tensorboard(const RunFiles& run, const std::filesystem::path& out);

}  // namespace qrl::report
