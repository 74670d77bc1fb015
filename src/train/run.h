// Owns a training run from recipe to result: opens the folder, chooses the resume point, makes the parts, runs the cold
// start and then RL. Knows nothing of how a step is computed (trainer.h) or a cold start made (cold_start.h).
#pragma once

#include <string>

#include "config/reader.h"
#include "dist/collectives.h"

namespace qrl::train {

enum class RunPart { everything, cold_start_only };

struct RunOptions {
  RunPart part = RunPart::everything;
  bool allow_change = false;  ///< a resumed run may have other values of keys that are not fixed (config/resume_keys.h)
  std::string command;        ///< as it was typed, for the log
  std::string program;        ///< name and version, for sessions.jsonl
};

/// Runs or resumes the recipe's run and prints its result; stops as train/signals.h says, once its caller has installed
/// the handlers. Throws base::Error: input (2), guard (3), stopped (75).
void run(const config::LoadedRecipe& loaded, dist::Collectives& world, const RunOptions& options);

}  // namespace qrl::train
