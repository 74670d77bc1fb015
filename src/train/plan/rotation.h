// Owns the meaning of quant.rollout.rotation: auto for a model and a resumed run.
#pragma once

#include <filesystem>
#include <string>

#include "config/reader.h"
#include "dist/collectives.h"
#include "model/config.h"

namespace qrl::train {

/// Replaces auto by the rotation in `checkpoint`'s recipe, if readable; without the key it was none. Another value
/// stays.
void take_recorded_rotation(config::Recipe& recipe, const std::filesystem::path& checkpoint);

/// Does the same for a run, from any checkpoint that it could resume, since all agree. Without one, auto becomes
/// hadamard if the block fits the model, else none. Updates the recipe's printed forms. Throws as model::check_formats
/// does. The first rank reads. Collective.
void resolve_rotation(config::LoadedRecipe& loaded, const model::ModelConfig& model, dist::Collectives& world);

/// Replaces auto, without checkpoints, by hadamard if the block fits `model`, else none.
void choose_rotation(config::Recipe& recipe, const model::ModelConfig& model);

}  // namespace qrl::train
