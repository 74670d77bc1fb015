#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "commands.h"
#include "loaded_sampler.h"
#include "report/rows.h"
#include "state/folder.h"
#include "state/sealed.h"
#include "tasks/verifier.h"
#include "train/evaluate/evaluate.h"
#include "train/metrics/progress.h"
#include "train/plan/formats.h"
#include "train/plan/machine.h"
#include "train/plan/options.h"
#include "train/plan/recorded_recipe.h"
#include "train/policy/policy.h"
#include "train/prompts/conversations.h"
#include "train/prompts/text_options.h"

namespace qrl::app {

namespace {

struct EvalArguments {
  RecipeArguments recipe;
  std::string checkpoint;
  std::string out;
};

void make_new_folder(const std::string& dir) {
  std::error_code error;
  state::require_place_for_output(dir);
  std::filesystem::create_directories(dir, error);
  QRL_REQUIRE(!error, dir, "a folder that can be created", error.message(), "choose another --out");
  QRL_REQUIRE(std::filesystem::is_empty(dir, error) && !error, dir, "a new or empty folder",
              "a folder with files in it", "choose another --out");
}

void evaluate(const EvalArguments& arguments, dist::Collectives& world) {
  require_own_launcher();
  if (!arguments.out.empty() && world.is_first()) make_new_folder(arguments.out);
  train::LoadedRecipe loaded = arguments.recipe.load(true, train::RecipeUse::sampling);
  train::take_recorded_formats(loaded, given_model(arguments.checkpoint));
  const train::Recipe& recipe = loaded.recipe;
  train::set_threads(recipe, world);
  world.set_time_limit(static_cast<double>(recipe.trainer.collective_timeout_s));
  base::set_log_quiet(!world.is_first());
  LoadedSampler loaded_sampler(policy_of(recipe, arguments.checkpoint), recipe, arguments.checkpoint, world,
                               recipe.data.max_prompt_length);
  const train::Policy& policy = loaded_sampler.policy;
  const auto verifier = tasks::make_verifier(train::verifier_options(recipe));
  const auto sets = train::load_held_out_prompts(recipe, policy.tokenizer, *verifier);
  QRL_REQUIRE(!sets.empty(), arguments.recipe.file, "held-out prompts", "none",
              "set data.val_files or data.val_generator");
  const auto conversations = train::conversation_settings(recipe, policy.tokenizer, *verifier);
  loaded_sampler.publish(recipe, *verifier);
  std::string responses;
  const train::GenerationProgress progress("evaluation", train::num_responses(sets, recipe.eval, world),
                                           loaded_sampler.sampler.decoder);
  const train::Metrics metrics = train::evaluate(
      loaded_sampler.sampler.decoder, sets, recipe, train::eval_sampling(recipe, policy.config, policy.tokenizer),
      policy.tokenizer, *verifier, conversations.get(), world, arguments.out.empty() ? nullptr : &responses);
  loaded_sampler.say_what_it_samples(recipe);
  if (!world.is_first()) return;
  const std::map<std::string, double, report::NameOrder> ordered(metrics.begin(), metrics.end());
  for (const auto& [name, value] : ordered) std::printf("%s: %.6g\n", name.c_str(), value);
  std::printf("\n%s", train::metrics_table(sets, metrics).c_str());
  if (arguments.out.empty()) return;
  const std::filesystem::path dir = arguments.out;
  nlohmann::ordered_json results = {{"model", arguments.checkpoint.empty() ? recipe.model.path : arguments.checkpoint},
                                    {"sampling",
                                     {{"n", recipe.eval.n},
                                      {"temperature", recipe.eval.temperature},
                                      {"top_p", recipe.eval.top_p},
                                      {"top_k", recipe.eval.top_k},
                                      {"max_response_length", recipe.data.max_response_length},
                                      {"seed", recipe.trainer.seed}}},
                                    {"quant",
                                     {{"weights", quant::name(train::snapshot_formats(recipe.quant).linear)},
                                      {"kv_cache", quant::name(train::kv_format(recipe.quant))}}},
                                    {"metrics", metrics}};
  if (arguments.checkpoint.empty() && !recipe.lora.path.empty()) results["adapters"] = recipe.lora.path;
  state::replace_file(dir / "results.json", results.dump(2) + "\n");
  state::replace_file(dir / "responses.jsonl", responses);
  std::printf("wrote %s (results.json, responses.jsonl)\n", arguments.out.c_str());
}

}  // namespace

void add_eval(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<EvalArguments>();
  CLI::App* command = app.add_subcommand("eval", "score a policy on the recipe's held-out prompts");
  add_recipe_arguments(*command, arguments->recipe);
  add_checkpoint(*command, arguments->checkpoint);
  add_text(*command, "--out", arguments->out, "DIR",
           "new or empty folder for results.json and responses.jsonl (every response with its verdict)");
  add_ranks(*command);
  set_work(*command, action, arguments, evaluate);
}

}  // namespace qrl::app
