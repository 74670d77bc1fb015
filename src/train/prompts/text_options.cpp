#include "train/prompts/text_options.h"

#include "train/recipe/catalog.h"

namespace qrl::train {

data::RowOptions row_options(const DataRecipe& recipe, tasks::Split split) {
  data::RowOptions options{recipe.prompt_key, recipe.ground_truth_key, recipe.data_source_key};
  const bool is_train = split == tasks::Split::train;
  options.filter = is_train ? recipe.filter : recipe.val_filter;
  options.filter_key = is_train ? "data.filter" : "data.val_filter";
  return options;
}

data::TemplateOptions template_options(const DataRecipe& recipe) {
  return {recipe.chat_template, recipe.system_prompt, recipe.enable_thinking};
}

tasks::RuleWeights rule_weights(const RewardRecipe& reward) {
  return {reward.correct, reward.wrong, reward.format, reward.partial};
}

tasks::VerifierOptions verifier_options(const Recipe& recipe) {
  const RewardRecipe& reward = recipe.reward;
  tasks::VerifierOptions options;
  options.known = recipe.keys->catalog().verifiers;
  options.word = reward.verifier.word();
  for (const auto& [source, verifier] : reward.by_source) options.by_source[source] = verifier.word();
  options.own = recipe.own;
  options.weights = rule_weights(reward);
  tasks::CommandOptions& command = options.command;
  command.argv = reward.command;
  command.folder = reward.folder;
  command.env = reward.env;
  command.after = reward.after.word();
  command.workers = reward.workers;
  command.timeout_s = reward.timeout_s;
  command.start_timeout_s = reward.start_timeout_s;
  command.memory_bytes = reward.memory_mb.value_or(0) << 20;
  command.in_flight = reward.in_flight;
  command.rows = reward.rows;
  command.weights = reward.weights;
  const double correct_by_default = recipe.keys->defaults().reward.correct_at;
  command.correct_at = {reward.correct_at, reward.correct_at != correct_by_default};
  command.on_error = reward.on_error;
  command.max_error_fraction = reward.max_error_fraction;
  command.seed = recipe.trainer.seed;
  command.run_folder = recipe.trainer.default_local_dir;
  if (has_environment(recipe)) options.environment = std::make_shared<tasks::Environment>(environment_options(recipe));
  return options;
}

tasks::EnvironmentOptions environment_options(const Recipe& recipe) {
  const EnvironmentRecipe& environment = recipe.environment;
  const auto value_of = [&](const char* key) { return recipe.keys->find(key)->print(recipe); };
  tasks::EnvironmentOptions options;
  options.argv = environment.command;
  options.folder = environment.folder;
  options.env = environment.env;
  options.hello = {recipe.trainer.seed,           recipe.trainer.default_local_dir,
                   value_of("environment.style"), value_of("environment.role"),
                   environment.max_turns,         environment.sessions};
  options.limits = {environment.sessions, environment.timeout_s, environment.setup_timeout_s};
  options.workers = environment.workers;
  options.memory_bytes = environment.memory_mb.value_or(0) << 20;
  options.weights = recipe.reward.weights;
  const double correct_by_default = recipe.keys->defaults().reward.correct_at;
  options.correct_at = {recipe.reward.correct_at, recipe.reward.correct_at != correct_by_default};
  options.on_error = environment.on_error;
  return options;
}

rollout::OverlongBuffer overlong_buffer(const RewardRecipe& reward) {
  return {reward.overlong_buffer.enable, reward.overlong_buffer.len, reward.overlong_buffer.penalty_factor};
}

}  // namespace qrl::train
