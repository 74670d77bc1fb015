#pragma once

#include <filesystem>
#include <optional>

#include "config/recipe.h"

namespace qrl::train {

/// Returns a checkpoint's recipe without verifying the checkpoint; nothing if it is unreadable.
std::optional<config::Recipe> read_recorded_recipe(const config::Recipe& recipe,
                                                   const std::filesystem::path& checkpoint);

/// Returns the recipe of the newest checkpoint that the run may resume; nothing without one. Skips a cold start from
/// another run (sft.from).
std::optional<config::Recipe> recorded_recipe(const config::Recipe& recipe);

}  // namespace qrl::train
