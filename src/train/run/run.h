#pragma once

#include <string>

#include "dist/collectives.h"
#include "train/recipe/load.h"

namespace qrl::train {

enum class RunPart { everything, cold_start_only };

struct RunOptions {
  RunPart part = RunPart::everything;
  bool allow_change = false;  ///< if set, keys that are not fixed may change on resume
  std::string command;        ///< command line as typed, for the log
  std::string program;        ///< program's name and version, for sessions.jsonl
};

/// Runs or resumes the recipe's run and prints its result. Obeys stop requests if the handlers of train/signals.h are
/// installed. Throws base::Error of kind input (exit 2), guard (3) or stopped (75).
void run(const LoadedRecipe& loaded, dist::Collectives& world, const RunOptions& options);

}  // namespace qrl::train
