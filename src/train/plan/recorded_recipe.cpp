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

namespace {

/// Holds the keys of take_recorded_keys, as bytes that ranks exchange.
struct TakenKeys {
  bool are_known = false;
  config::LearnerForward forward = {};
  bool bitwise = false;
  config::KvCache kv_cache = {};
  std::int64_t mini_batch_size = 0;
};

}  // namespace

void take_recorded_keys(config::LoadedRecipe& loaded, dist::Collectives& world) {
  config::Recipe& recipe = loaded.recipe;
  TakenKeys taken;
  if (const auto recorded = world.is_first() ? recorded_recipe(recipe) : std::nullopt) {
    taken = {true, recorded->quant.learner_forward, recorded->rollout.bitwise, recorded->quant.kv_cache,
             config::prompts_per_update(*recorded)};
  }
  world.broadcast(std::as_writable_bytes(std::span(&taken, 1)), 0);
  if (!taken.are_known) return;
  const auto take = [&](const char* key, auto& member, const auto& value) {
    if (loaded.origins.contains(key) || member == value) return;
    member = value;
    loaded.origins[key] = "the checkpoint";
  };
  take("quant.learner.forward", recipe.quant.learner_forward, taken.forward);
  take("rollout.bitwise", recipe.rollout.bitwise, taken.bitwise);
  take("quant.rollout.kv_cache", recipe.quant.kv_cache, taken.kv_cache);
  if (recipe.data.train_batch_size % taken.mini_batch_size == 0)  // else --allow-change changed the batch
    take("actor.mini_batch_size", recipe.actor.mini_batch_size, std::optional(taken.mini_batch_size));
  config::print_again(loaded);
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
