#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "train/prompts/sft_rows.h"
#include "train/recipe/load.h"

namespace qrl::train {

/// Describes the main settings. Defaults end in "(default)", a mode's values in "(mode NAME)".
std::vector<std::string> describe_settings(const LoadedRecipe& loaded);

/// Returns a note if optim.lr moved no model of this size where it was measured (docs/howto/reward-does-not-rise.md),
/// else "".
std::string learning_rate_note(const Recipe& recipe, const model::ModelConfig& model);

/// Warns of settings without effect, such as clip bounds with one update per step, and of INT4 beside a bf16 learner.
void warn_of_settings(const LoadedRecipe& loaded, const model::ModelConfig& model);

/// Returns a key's value with its mark: "5.0e-4", "1.0e-6 (default)", "16384 (mode qarl)".
std::string shown_setting(const LoadedRecipe& loaded, std::string_view key);

/// Throws an input error if prompt plus response may exceed the model's positions.
void require_positions(const LoadedRecipe& loaded, const model::ModelConfig& config);

void require_row_positions(const SftRows& rows, const model::ModelConfig& config);

/// Returns the resolved recipe's hash: 32 hexadecimal digits.
std::string recipe_hash(const LoadedRecipe& loaded);

}  // namespace qrl::train
