#pragma once

#include <filesystem>
#include <optional>

#include "config/reader.h"
#include "dist/collectives.h"
#include "model/config.h"

namespace qrl::train {

/// Returns the recipe of the newest checkpoint that the run may resume; nothing without one. With sft.from, skips
/// cold-start checkpoints.
std::optional<config::Recipe> recorded_recipe(const config::Recipe& recipe);

/// Number of the form in which this version records a run's recipe (state.json, recipe_form). Checkpoints of 0.2 have
/// no number, which counts as 0. Later forms are refused.
inline constexpr int kRecipeForm = 1;

/// Takes quant.learner.forward, rollout.bitwise, quant.rollout.kv_cache and actor.mini_batch_size from the checkpoint
/// that the run may resume. Leaves keys that the recipe sets. So a run goes on as it began, whatever these keys'
/// defaults are by now. The first rank reads. Collective.
void take_recorded_keys(config::LoadedRecipe& loaded, dist::Collectives& world);

/// Replaces the rotation `auto` by the one in `checkpoint`'s recipe. Leaves `auto` if that recipe is unreadable. If
/// that recipe lacks the key, sets `none`.
void take_recorded_rotation(config::Recipe& recipe, const std::filesystem::path& checkpoint);

/// Resolves rotation auto for a run. Takes the value of the checkpoint that the run may resume; without one, calls
/// choose_rotation. Throws like model::check_formats. The first rank reads. Collective.
void resolve_rotation(config::LoadedRecipe& loaded, const model::ModelConfig& model, dist::Collectives& world);

/// Resolves rotation auto without checkpoints: hadamard if its block fits `model`, else none.
void choose_rotation(config::Recipe& recipe, const model::ModelConfig& model);

}  // namespace qrl::train
