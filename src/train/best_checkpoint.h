// Owns trainer.keep_best: which evaluation was the best, and the name of its checkpoint. When it is written is the
// trainer's.
#pragma once

#include <filesystem>
#include <vector>

#include "train/checkpoint.h"
#include "train/prompts.h"

namespace qrl::train {

/// Throws an input error if trainer.keep_best is not a score of this recipe's evaluations.
void require_known_score(const config::Recipe& recipe, const std::vector<PromptSet>& held_out);

/// Returns whether the row of state.step has a higher score than every evaluation before it, and then notes it in the
/// state.
bool note_if_best(const config::Recipe& recipe, const learner::Metrics& row, RunState& state);

/// Makes DIR/best a link to DIR/step_N, in one step.
void name_best(const std::filesystem::path& dir, std::int64_t step);

}  // namespace qrl::train
