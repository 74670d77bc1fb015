#include "train/plan/recorded_recipe.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "config/reader.h"
#include "train/files/checkpoint_folder.h"

namespace qrl::train {

namespace fs = std::filesystem;

std::optional<config::Recipe> read_recorded_recipe(const config::Recipe& recipe, const fs::path& checkpoint) {
  if (!is_checkpoint(checkpoint)) return std::nullopt;
  try {
    return config::load_recipe(*recipe.keys, checkpoint / kRecipeFile, {}, false, config::RecipeUse::record).recipe;
  } catch (const base::Error&) {
    return std::nullopt;
  }
}

std::optional<config::Recipe> recorded_recipe(const config::Recipe& recipe) {
  if (recipe.trainer.resume_from.mode == config::ResumeMode::path)
    return read_recorded_recipe(recipe, recipe.trainer.resume_from.path);
  const std::vector<fs::path> all = list_checkpoints(fs::path(recipe.trainer.default_local_dir) / "checkpoints");
  const auto found = std::find_if(all.begin(), all.end(), [&](const fs::path& checkpoint) {
    return is_checkpoint(checkpoint) && (recipe.sft.from.empty() || rl_step_of(checkpoint));
  });
  return found == all.end() ? std::nullopt : read_recorded_recipe(recipe, *found);
}

}  // namespace qrl::train
