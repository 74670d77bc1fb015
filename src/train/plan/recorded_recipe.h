// Owns reading the recipe in a checkpoint before the run is resumed, for values that a run chose itself.
#pragma once

#include <filesystem>
#include <optional>

#include "config/recipe.h"

namespace qrl::train {

/// Returns the recipe of a checkpoint without verifying the checkpoint; nothing if unreadable, which resuming reports.
std::optional<config::Recipe> read_recorded_recipe(const config::Recipe& recipe,
                                                   const std::filesystem::path& checkpoint);

/// Returns the recipe in the newest checkpoint that the run may resume; nothing without one. Skips a cold start taken
/// from another run (sft.from), which has that run's recipe.
std::optional<config::Recipe> recorded_recipe(const config::Recipe& recipe);

}  // namespace qrl::train
