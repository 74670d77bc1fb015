// Owns what quant.rollout.rotation: auto means for a model and for a resumed run. Knows nothing of kernels.
#pragma once

#include <filesystem>
#include <string>

#include "config/reader.h"
#include "dist/collectives.h"
#include "model/config.h"
#include "quant/rotation.h"

namespace qrl::train {

/// Replaces auto by what `checkpoint` was made with, if it is one whose recipe can be read; a recipe without the key
/// was made with none. Another value stays.
void take_recorded_rotation(config::Recipe& recipe, const std::filesystem::path& checkpoint);

/// Does the same for a run, by any checkpoint that it could resume, since all have one value. Without one, auto becomes
/// hadamard where the block fits the model, else none. The recipe's printed forms follow. Throws as
/// model::check_formats does. The first rank looks. Collective.
void resolve_rotation(config::LoadedRecipe& loaded, const model::ModelConfig& model, dist::Collectives& world);

/// Replaces auto, without a look at checkpoints, by hadamard where the block fits `model`, else by none.
void choose_rotation(config::Recipe& recipe, const model::ModelConfig& model);

/// Returns "inputs rotated by blocks of 64 (hadamard)", or "inputs not rotated".
std::string rotation_text(const quant::Rotation& rotation);

}  // namespace qrl::train
