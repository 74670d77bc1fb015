// Owns trainer.keep_best: the best evaluation, and its checkpoint's name.
#pragma once

#include <filesystem>
#include <vector>

#include "train/checkpoint/checkpoint.h"
#include "train/prompts/prompts.h"

namespace qrl::train {

/// Throws an input error if trainer.keep_best is not a score of this recipe's evaluations.
void require_known_score(const config::Recipe& recipe, const std::vector<PromptSet>& held_out);

/// Returns whether the row of state.step has the highest score so far, and then notes it in the state.
bool note_if_best(const config::Recipe& recipe, const learner::Metrics& row, RunState& state);

/// Links DIR/best to DIR/step_N atomically.
void name_best(const std::filesystem::path& dir, std::int64_t step);

}  // namespace qrl::train
