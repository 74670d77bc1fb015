// Owns the guard against updates that are not finite.
#pragma once

#include "config/recipe.h"
#include "learner/learner.h"
#include "train/checkpoint/checkpoint.h"

namespace qrl::train {

/// Ends the run (exit 3) after too many consecutive skipped updates; counts them in `state`.
void guard_finite(const learner::UpdateReport& report, const config::Recipe& recipe, RunState& state);

}  // namespace qrl::train
