// Owns what a run takes over from its checkpoint: the recipe, and by it the rotation.
#pragma once

#include <filesystem>
#include <optional>

#include "config/reader.h"
#include "dist/collectives.h"
#include "model/config.h"

namespace qrl::train {

/// Returns the recipe of the newest checkpoint that the run may resume; nothing without one. Skips a cold start from
/// another run (sft.from).
std::optional<config::Recipe> recorded_recipe(const config::Recipe& recipe);

/// Replaces auto by the rotation in `checkpoint`'s recipe, if readable; by none if it lacks the key. Other values stay.
void take_recorded_rotation(config::Recipe& recipe, const std::filesystem::path& checkpoint);

/// Resolves auto for a run: from any checkpoint that it could resume, otherwise by choose_rotation. Throws like
/// model::check_formats. The first rank reads. Collective.
void resolve_rotation(config::LoadedRecipe& loaded, const model::ModelConfig& model, dist::Collectives& world);

/// Resolves auto without checkpoints: hadamard if the block fits `model`, else none.
void choose_rotation(config::Recipe& recipe, const model::ModelConfig& model);

}  // namespace qrl::train
