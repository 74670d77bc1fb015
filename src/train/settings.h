// Owns how a run's settings are shown to a person: the values that decide what it does, and where they come from. Knows
// nothing of running it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/reader.h"
#include "model/config.h"
#include "train/sft_rows.h"

namespace qrl::train {

/// Describes mode, loss, correction, formats, learner, optimizer, verifier and sampling, a line each, and the mode's
/// values that the recipe overrides. A value that is not set is marked (default), a value of the mode (mode NAME).
std::vector<std::string> describe_settings(const config::LoadedRecipe& loaded);

/// Warns, in one line, of settings that act only through the ratio to the old policy and so have no effect with one
/// update a step. These are acr, clip bounds that were set, and losses that differ from the default in their ratio.
void warn_of_idle_settings(const config::LoadedRecipe& loaded);

/// Returns a key's value with that mark: "5.0e-4", "1.0e-6 (default)", "16384 (mode qarl)".
std::string shown_setting(const config::LoadedRecipe& loaded, std::string_view key);

/// Throws an input error if prompts and responses may be longer than the model has positions. It names the mode if that
/// set a length.
void require_positions(const config::LoadedRecipe& loaded, const model::ModelConfig& config);

/// Throws an input error if a row of the cold start is longer than the model has positions.
void require_row_positions(const SftRows& rows, const model::ModelConfig& config);

/// Returns the identity of the resolved recipe: 32 hexadecimal digits (state/hash.h).
std::string recipe_hash(const config::LoadedRecipe& loaded);

}  // namespace qrl::train
