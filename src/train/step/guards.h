#pragma once

#include "config/recipe.h"
#include "learner/learner.h"
#include "train/checkpoint/checkpoint.h"

namespace qrl::train {

/// Counts consecutive updates that are not finite, and so skipped, in `state`. After too many, ends the run (exit 3).
void guard_finite(const learner::UpdateReport& report, const config::Recipe& recipe, RunState& state);

}  // namespace qrl::train
