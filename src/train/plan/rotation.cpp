#include "train/plan/rotation.h"

#include <algorithm>
#include <span>
#include <vector>

#include "base/error.h"
#include "config/rules.h"
#include "model/snapshot.h"
#include "train/files/checkpoint_folder.h"
#include "train/plan/formats.h"

namespace qrl::train {

namespace fs = std::filesystem;
using config::RotationKind;

namespace {

/// Returns a checkpoint that the run may resume, unverified, or "".
fs::path some_checkpoint(const config::Recipe& recipe) {
  if (recipe.trainer.resume_mode == config::ResumeMode::path) return recipe.trainer.resume_path;
  std::error_code error;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(fs::path(recipe.trainer.default_local_dir) / "checkpoints", error)) {
    // A cold start from another run has that run's recipe.
    const bool is_taken = !recipe.sft.from.empty() && entry.path().filename().string().starts_with("sft_");
    if (is_checkpoint(entry.path()) && !is_taken) found.push_back(entry.path());
  }
  return found.empty() ? fs::path() : *std::max_element(found.begin(), found.end());
}

/// Automatic without a checkpoint, or if its recipe is unreadable, which resuming reports.
RotationKind recorded(const config::Recipe& recipe, const fs::path& checkpoint) {
  if (checkpoint.empty() || !is_checkpoint(checkpoint)) return RotationKind::automatic;
  try {
    return config::load_recipe(*recipe.keys, checkpoint / "recipe.yaml", {}, false, config::RecipeUse::record)
        .recipe.quant.rotation;
  } catch (const base::Error&) {
    return RotationKind::automatic;
  }
}

}  // namespace

void take_recorded_rotation(config::Recipe& recipe, const fs::path& checkpoint) {
  RotationKind& rotation = recipe.quant.rotation;
  if (rotation == RotationKind::automatic) rotation = recorded(recipe, checkpoint);
}

void resolve_rotation(config::LoadedRecipe& loaded, const model::ModelConfig& model, dist::Collectives& world) {
  config::Recipe& recipe = loaded.recipe;
  RotationKind& rotation = recipe.quant.rotation;
  if (rotation != RotationKind::automatic) return;
  if (world.is_first()) take_recorded_rotation(recipe, some_checkpoint(recipe));
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
