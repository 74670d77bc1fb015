#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "dist/collectives.h"
#include "model/config.h"
#include "train/recipe/load.h"

namespace qrl::train {

/// Returns the recipe of the newest checkpoint that the run may resume; nothing without one. With sft.from, skips
/// cold-start checkpoints.
std::optional<Recipe> recorded_recipe(const Recipe& recipe);

/// Number of the form in which this version records a run's recipe (state.json, recipe_form). Checkpoints of 0.2 have
/// no number, which counts as 0. Later forms are refused.
inline constexpr int kRecipeForm = 1;

/// Takes quant.learner.forward, rollout.bitwise, quant.rollout.kv_cache and rotation, and actor.mini_batch_size, from
/// the checkpoint that the run may resume. Leaves keys that the recipe sets to another value than `auto`. So a run goes
/// on as it began, whatever the defaults are by now. The first rank reads. Collective.
void take_recorded_keys(LoadedRecipe& loaded, dist::Collectives& world);

/// Takes the same keys, except actor.mini_batch_size, from `checkpoint` if it has a readable recipe with the same
/// format of weights. Then replaces `auto`, except a rotation that the model decides.
void take_recorded_formats(LoadedRecipe& loaded, const std::filesystem::path& checkpoint);

/// Is the key that is chosen after kAutomaticKeys, for the model.
inline constexpr std::string_view kRotationKey = "quant.rollout.rotation";
/// Is the origin of a value that take_recorded_keys took.
inline constexpr const char* kFromCheckpoint = "the checkpoint";
/// Begins the origin of a value that resolve_automatic chose; the reason follows.
inline constexpr const char* kChosen = "auto: ";

/// Replaces what is still `auto` in quant and rollout.bitwise, and prints the recipe again.
void resolve_automatic(LoadedRecipe& loaded, const model::ModelConfig& model);

/// Resolves rotation auto without checkpoints: hadamard if its block fits `model`, else none.
void choose_rotation(Recipe& recipe, const model::ModelConfig& model);

}  // namespace qrl::train
