#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/reader.h"
#include "model/config.h"
#include "train/prompts/sft_rows.h"

namespace qrl::train {

/// Describes mode, loss, correction, formats, learner, optimizer, verifier, sampling, and overridden mode values. Marks
/// defaults (default), and a mode's values (mode NAME).
std::vector<std::string> describe_settings(const config::LoadedRecipe& loaded);

/// Warns of settings without effect, in one line per reason. With one update per step the ratio to the old policy is 1.
/// Then acr, clip bounds, losses that differ only in their ratio, and a replay of old routes cannot act.
void warn_of_idle_settings(const config::LoadedRecipe& loaded, const model::ModelConfig& model);

/// Returns a key's value with its mark: "5.0e-4", "1.0e-6 (default)", "16384 (mode qarl)".
std::string shown_setting(const config::LoadedRecipe& loaded, std::string_view key);

/// Throws an input error if prompt plus response may exceed the model's positions. Names the mode if it set a length.
void require_positions(const config::LoadedRecipe& loaded, const model::ModelConfig& config);

/// Throws an input error if a cold-start row exceeds the model's positions.
void require_row_positions(const SftRows& rows, const model::ModelConfig& config);

/// Returns the resolved recipe's hash: 32 hexadecimal digits (state/hash.h).
std::string recipe_hash(const config::LoadedRecipe& loaded);

}  // namespace qrl::train
