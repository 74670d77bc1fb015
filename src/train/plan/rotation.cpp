#include "train/plan/rotation.h"

#include <optional>
#include <span>

#include "model/snapshot.h"
#include "train/plan/formats.h"
#include "train/plan/recorded_recipe.h"

namespace qrl::train {

namespace fs = std::filesystem;
using config::RotationKind;

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
