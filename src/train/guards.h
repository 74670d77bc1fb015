// Owns the guard against updates that are not finite.
#pragma once

#include "config/recipe.h"
#include "learner/learner.h"
#include "train/checkpoint.h"

namespace qrl::train {

/// Ends the run (exit 3) when too many updates in a row were skipped as not finite; keeps the streak in `state`.
void guard_finite(const learner::UpdateReport& report, const config::Recipe& recipe, RunState& state);

}  // namespace qrl::train
