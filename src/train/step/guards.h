#pragma once

#include "config/recipe.h"
#include "learner/learner.h"
#include "train/checkpoint/checkpoint.h"

namespace qrl::train {

/// Counts in `state` consecutive updates that are not finite and so were skipped. Ends the run after too many (exit 3).
void guard_finite(const learner::UpdateReport& report, const config::Recipe& recipe, RunState& state);

}  // namespace qrl::train
