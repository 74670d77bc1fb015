// Owns what a run folder holds for whoever looks at it: every file may be missing, cut or growing. Knows nothing of
// training.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "report/rows.h"
#include "report/sessions.h"

namespace qrl::report {

struct RunFiles {
  std::filesystem::path dir;
  std::string name;         ///< the folder's
  std::string recipe_yaml;  ///< config.yaml with each value's origin; empty where it is missing
  Rows rows, sft_rows;
  std::vector<Session> sessions;
};

/// Reads the folder of a run. An input error when it is no folder, or holds neither config.yaml nor metric rows.
RunFiles read_run(const std::filesystem::path& dir);

/// Whether a process trains in the folder now: the lock that it holds is seen, not tried.
bool is_running(const std::filesystem::path& dir);

/// Writes events files for TensorBoard in `out`, those of the cold start in `out`/sft.
void write_tensorboard(const RunFiles& run, const std::filesystem::path& out);

}  // namespace qrl::report
