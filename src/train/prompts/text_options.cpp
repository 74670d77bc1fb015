#include "train/prompts/text_options.h"

#include "train/recipe/catalog.h"

namespace qrl::train {

data::RowOptions row_options(const DataRecipe& recipe, tasks::Split split) {
  data::RowOptions options{recipe};
  const bool is_train = split == tasks::Split::train;
  options.filter = is_train ? recipe.filter : recipe.val_filter;
  options.filter_key = is_train ? "data.filter" : "data.val_filter";
  return options;
}

tasks::VerifierOptions verifier_options(const Recipe& recipe) {
  const RewardRecipe& reward = recipe.reward;
  tasks::VerifierOptions options;
  options.known = recipe.keys->catalog().verifiers;
  options.word = reward.verifier.word();
  for (const auto& [source, verifier] : reward.by_source) options.by_source[source] = verifier.word();
  options.own = recipe.own;
  options.weights = reward;
  options.command = reward;
  options.command.seed = recipe.trainer.seed;
  options.command.run_folder = recipe.trainer.default_local_dir;
  if (has_environment(recipe)) options.environment = std::make_shared<tasks::Environment>(environment_options(recipe));
  return options;
}

tasks::EnvironmentOptions environment_options(const Recipe& recipe) {
  tasks::EnvironmentOptions options = recipe.environment;
  options.weights = recipe.reward.weights;
  options.correct_at = recipe.reward.correct_at;
  options.seed = recipe.trainer.seed;
  options.run_folder = recipe.trainer.default_local_dir;
  return options;
}

}  // namespace qrl::train
