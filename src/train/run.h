// Owns a training run from recipe to result: opens the folder, decides where to go on from, makes the parts, runs the
// cold start and then RL. Knows nothing of how a step is computed (trainer.h) or a cold start made (cold_start.h).
#pragma once

#include "config/reader.h"
#include "dist/collectives.h"

namespace qrl::train {

enum class RunPart { everything, cold_start_only };

/// Runs or resumes the recipe's run and prints its result; stops as train/signals.h says, once its caller has installed
/// the handlers. Throws base::Error: input (2), guard (3), stopped (75).
void run(const config::LoadedRecipe& loaded, dist::Collectives& world, RunPart part);

}  // namespace qrl::train
