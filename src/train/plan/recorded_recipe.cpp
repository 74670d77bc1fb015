#include "train/plan/recorded_recipe.h"

#include <algorithm>
#include <span>
#include <vector>

#include "base/error.h"
#include "model/snapshot.h"
#include "train/files/checkpoint_folder.h"
#include "train/plan/formats.h"

namespace qrl::train {

namespace fs = std::filesystem;
using config::RotationKind;

namespace {

/// Returns a checkpoint's recipe without verifying the checkpoint; nothing if it is unreadable.
std::optional<config::Recipe> read_recorded_recipe(const config::Recipe& recipe, const fs::path& checkpoint) {
  if (!is_checkpoint(checkpoint)) return std::nullopt;
  try {
    return config::load_recipe(*recipe.keys, checkpoint / kRecipeFile, {}, false, config::RecipeUse::record).recipe;
  } catch (const base::Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<config::Recipe> recorded_recipe(const config::Recipe& recipe) {
  if (recipe.trainer.resume_from.mode == config::ResumeMode::path)
    return read_recorded_recipe(recipe, recipe.trainer.resume_from.path);
  const std::vector<fs::path> all = list_checkpoints(fs::path(recipe.trainer.default_local_dir) / "checkpoints");
  const auto found = std::ranges::find_if(all, [&](const fs::path& checkpoint) {
    return is_checkpoint(checkpoint) && (recipe.sft.from.empty() || rl_step_of(checkpoint));
  });
  return found == all.end() ? std::nullopt : read_recorded_recipe(recipe, *found);
}

void take_recorded_rotation(config::Recipe& recipe, const fs::path& checkpoint) {
  RotationKind& rotation = recipe.quant.rotation;
  if (rotation != RotationKind::automatic) return;
  if (const auto recorded = read_recorded_recipe(recipe, checkpoint)) rotation = recorded->quant.rotation;
}

void resolve_rotation(config::LoadedRecipe& loaded, const model::ModelConfig& model, dist::Collectives& world) {
  config::Recipe& recipe = loaded.recipe;
  RotationKind& rotation = recipe.quant.rotation;
  if (rotation != RotationKind::automatic) return;
  if (const auto recorded = world.is_first() ? recorded_recipe(recipe) : std::nullopt)
    rotation = recorded->quant.rotation;
  world.broadcast(std::as_writable_bytes(std::span(&rotation, 1)), 0);
  choose_rotation(recipe, model);
  config::print_again(loaded);
}

void choose_rotation(config::Recipe& recipe, const model::ModelConfig& model) {
  RotationKind& rotation = recipe.quant.rotation;
  if (rotation != RotationKind::automatic) return;
  const bool fits(model::fitting_rotation(model, snapshot_formats(recipe.quant)));
  rotation = fits ? RotationKind::hadamard : RotationKind::none;
}

}  // namespace qrl::train
