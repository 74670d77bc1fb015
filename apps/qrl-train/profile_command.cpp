#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/log.h"
#include "commands.h"
#include "config/printer.h"
#include "loaded_sampler.h"
#include "state/file.h"
#include "tasks/verifier.h"
#include "train/plan/machine.h"
#include "train/policy/policy.h"
#include "train/policy/quantizer.h"
#include "train/prompts/prompts.h"
#include "train/prompts/text_options.h"
#include "train/recipe/load.h"

namespace qrl::app {

namespace {

struct ProfileArguments {
  RecipeArguments recipe;
  std::string checkpoint, out;
};

void make_profile(const ProfileArguments& arguments, dist::Collectives& world) {
  const train::LoadedRecipe loaded = arguments.recipe.load(true, train::RecipeUse::sampling);
  const train::Recipe& recipe = loaded.recipe;
  const std::string& key = recipe.quant.profile;
  const std::string out = !arguments.out.empty() ? arguments.out : key != "auto" ? key : std::string();
  QRL_REQUIRE(!out.empty(), "qrl-train profile", "an output file", "neither --out nor a path in quant.rollout.profile");
  QRL_REQUIRE(!train::has_cold_start(recipe.sft) || !arguments.checkpoint.empty(), "qrl-train profile",
              "--checkpoint for a recipe with a cold start", "no --checkpoint",
              "run the cold start with qrl-train sft, then give --checkpoint RUN/checkpoints/sft_" +
                  (recipe.sft.steps > 0 ? std::to_string(recipe.sft.steps) : "N"));
  QRL_REQUIRE(recipe.quant.weights == train::WeightFormat::int8, "quant.rollout.weights", "int8 with qrl-train profile",
              train::printed_value(recipe, "quant.rollout.weights"), "set it to int8: other formats need no profile");
  const std::filesystem::path file = state::output_file(out);
  require_new_file(out, arguments.out.empty() ? "quant.rollout.profile" : "--out");
  train::set_threads(recipe, world);
  world.set_time_limit(static_cast<double>(recipe.trainer.collective_timeout_s));
  const train::Policy policy = policy_of(recipe, arguments.checkpoint);
  const auto verifier = tasks::make_verifier(train::verifier_options(recipe));
  const train::PromptSet prompts = train::load_train_prompts(recipe, policy.tokenizer, *verifier);
  const model::Int8Profile profile = train::calibrate_profile(policy.config, policy.weights, prompts, recipe);
  model::save_int8_profile(file, profile);
  std::size_t num_matrices = 0;
  for (const model::WeightSpec& spec : model::weight_specs(policy.config)) {
    if (spec.kind == model::WeightKind::linear) num_matrices += std::max<std::size_t>(spec.parts.size(), 1);
  }
  std::printf("int8 profile of %zu linear layers: %s\n", num_matrices, file.c_str());
}

}  // namespace

void add_profile(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<ProfileArguments>();
  CLI::App* command = app.add_subcommand(
      "profile",
      "calibrate the fixed int8 profile of a recipe's model (quant.rollout.profile) on its training prompts");
  add_recipe_arguments(*command, arguments->recipe);
  add_checkpoint(*command, arguments->checkpoint);
  add_text(*command, "--out", arguments->out, "FILE",
           "safetensors file to write; default: the recipe's quant.rollout.profile");
  set_work(*command, action, arguments, make_profile);
}

}  // namespace qrl::app
