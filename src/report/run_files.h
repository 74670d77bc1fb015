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

/// Reads a run folder. The folder must have a metric file, or config.yaml and checkpoints. Throws an input error for
/// other paths.
RunFiles read_run(const std::filesystem::path& dir);

/// Returns each run's recipe (RunFiles::recipe_yaml).
std::vector<std::string> recipes_of(const std::vector<RunFiles>& runs);

/// Returns whether a process holds the folder's lock, according to /proc/locks. Takes no lock itself.
bool is_running(const std::filesystem::path& dir);

/// Writes TensorBoard events files to `out`, and the cold start's to `out`/sft.
void write_tensorboard(const RunFiles& run, const std::filesystem::path& out);

}  // namespace qrl::report
