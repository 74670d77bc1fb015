#include "train/plan/recorded_recipe.h"

#include <algorithm>
#include <span>
#include <vector>

#include "base/error.h"
#include "config/printer.h"
#include "model/snapshot.h"
#include "train/files/checkpoint_folder.h"
#include "train/plan/formats.h"
#include "train/recipe/automatic.h"

namespace qrl::train {

namespace fs = std::filesystem;

namespace {

/// Returns a checkpoint's recipe without verifying the checkpoint; nothing if it is unreadable.
std::optional<Recipe> read_recorded_recipe(const Recipe& recipe, const fs::path& checkpoint) {
  if (!is_checkpoint(checkpoint)) return std::nullopt;
  try {
    return load_recipe(*recipe.keys, checkpoint / kRecipeFile, {}, false, RecipeUse::record).recipe;
  } catch (const base::Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<Recipe> recorded_recipe(const Recipe& recipe) {
  if (recipe.trainer.resume_from.mode == ResumeMode::path)
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
  quant::Format weights = {};
  learner::LearnerForward forward = {};
  bool bitwise = false;
  KvCache kv_cache = {};
  RotationKind rotation = {};
  std::int64_t mini_batch_size = 0;
};

TakenKeys taken_keys(const Recipe& recorded) {
  return {true,
          snapshot_formats(recorded.quant).linear,
          recorded.quant.learner.forward,
          recorded.rollout.bitwise,
          recorded.quant.kv_cache,
          recorded.quant.rotation,
          prompts_per_update(recorded)};
}

/// Sets `member` to the checkpoint's value unless the recipe sets the key to another value than `auto`.
template <class Member, class T>
void take(LoadedRecipe& loaded, std::string_view key, Member& member, const T& value) {
  const std::string name(key);
  const bool is_auto = printed_value(loaded.recipe, name) == "auto";
  if (!is_auto && (loaded.origins.contains(name) || member == value)) return;
  member = value;
  loaded.origins[name] = kFromCheckpoint;
}

/// Takes what decides how the sampler's tokens are drawn and scored, if the weights' format is the checkpoint's.
void take_formats(LoadedRecipe& loaded, const TakenKeys& taken) {
  Recipe& recipe = loaded.recipe;
  if (!taken.are_known || snapshot_formats(recipe.quant).linear != taken.weights) return;
  take(loaded, kAutomaticKeys[0], recipe.quant.learner.forward, taken.forward);
  take(loaded, kAutomaticKeys[1], recipe.rollout.bitwise, taken.bitwise);
  take(loaded, kAutomaticKeys[2], recipe.quant.kv_cache, taken.kv_cache);
  // The reader resolved `auto` for the forward pass that the recipe alone would have.
  RotationKind& rotation = recipe.quant.rotation;
  if (!loaded.origins.contains(std::string(kRotationKey)) && gains_by_rotation(recipe.quant))
    rotation = RotationKind::automatic;
  if (rotation == RotationKind::automatic) take(loaded, kRotationKey, rotation, taken.rotation);
}

}  // namespace

void take_recorded_keys(LoadedRecipe& loaded, dist::Collectives& world) {
  Recipe& recipe = loaded.recipe;
  TakenKeys taken;
  if (const auto recorded = world.is_first() ? recorded_recipe(recipe) : std::nullopt) taken = taken_keys(*recorded);
  world.broadcast(std::as_writable_bytes(std::span(&taken, 1)), 0);
  if (!taken.are_known) return;
  take_formats(loaded, taken);
  if (recipe.data.train_batch_size % taken.mini_batch_size == 0)  // else --allow-change changed the batch
    take(loaded, "actor.mini_batch_size", recipe.actor.mini_batch_size, std::optional(taken.mini_batch_size));
  print_again(loaded);
}

void take_recorded_formats(LoadedRecipe& loaded, const fs::path& checkpoint) {
  if (const auto recorded = read_recorded_recipe(loaded.recipe, checkpoint))
    take_formats(loaded, taken_keys(*recorded));
  (void)resolve_automatic(loaded.recipe);
  print_again(loaded);
}

void resolve_automatic(LoadedRecipe& loaded, const model::ModelConfig& model) {
  for (const AutoChoice& choice : resolve_automatic(loaded.recipe))
    loaded.origins[std::string(choice.key)] = kChosen + choice.why;
  const bool is_open = loaded.recipe.quant.rotation == RotationKind::automatic;
  choose_rotation(loaded.recipe, model);
  if (is_open) {
    const bool fits = loaded.recipe.quant.rotation == RotationKind::hadamard;
    loaded.origins[std::string(kRotationKey)] =
        std::string(kChosen) + "its block " + (fits ? "divides" : "does not divide") + " every width";
  }
  print_again(loaded);
}

void choose_rotation(Recipe& recipe, const model::ModelConfig& model) {
  RotationKind& rotation = recipe.quant.rotation;
  if (rotation != RotationKind::automatic) return;
  const bool fits(model::fitting_rotation(model, snapshot_formats(recipe.quant)));
  rotation = fits ? RotationKind::hadamard : RotationKind::none;
}

}  // namespace qrl::train
