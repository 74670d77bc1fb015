// eval and generate: what a policy scores and says, through the same decoder as training.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "command.h"
#include "state/folder.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"
#include "train/formats.h"
#include "train/quantiser.h"
#include "train/session.h"

namespace qrl::app {

namespace {

struct SampleArguments {
  RecipeArguments recipe;
  std::string checkpoint;
  std::string out;
  std::string prompt;
  std::int32_t num_samples = 1;
};

/// The policy of --checkpoint, or the recipe's own, and its sampler.
struct LoadedSampler {
  LoadedSampler(const config::Recipe& recipe, const std::string& checkpoint, dist::Collectives& world)
      : policy(checkpoint.empty() ? train::make_policy(recipe) : train::load_policy(checkpoint)),
        sampler(policy.config, recipe, world, recipe.data.max_prompt_length) {
    if (!checkpoint.empty()) quantiser = train::load_quantiser(checkpoint, policy.config, world);
  }

  /// Publishes as training with this recipe does; calibrates what the checkpoint did not bring as the run would, on
  /// its training prompts.
  void publish(const config::Recipe& recipe, const reward::Verifier& verifier, const std::string& checkpoint) {
    // The run's own goes with its weights, but is of int8 codes alone.
    if (recipe.quant.weights != config::WeightFormat::int8) quantiser.profile = nullptr;
    if (quantiser.profile != nullptr) train::require_same_profile(recipe, policy.config, *quantiser.profile);
    const bool lacks_profile = !recipe.quant.profile.empty() && quantiser.profile == nullptr;
    train::PromptSet prompts;
    std::vector<std::vector<types::TokenId>> calibration;
    if (lacks_profile || train::kv_format(recipe.quant) == quant::KvFormat::fp8_e4m3) {
      prompts = train::load_train_prompts(recipe, policy.tokenizer, verifier);
      const bool of_run = train::is_checkpoint(checkpoint);
      const std::int64_t drawn = of_run ? train::read_checkpoint_state(checkpoint).state.prompts_drawn : 0;
      calibration = train::calibration_prompts(prompts, recipe.trainer.seed, static_cast<std::uint64_t>(drawn));
    }
    if (lacks_profile) quantiser.profile = train::find_profile(policy.config, policy.weights, prompts, recipe);
    sampler.snapshot.use_profile(quantiser.profile);
    sampler.snapshot.publish(policy.weights, 0);
    train::load_published(sampler, calibration, recipe.quant, quantiser);
  }
  train::Policy policy;
  train::Sampler sampler;
  train::QuantiserState quantiser;
};

void add_options(CLI::App& command, SampleArguments& arguments) {
  add_recipe_arguments(command, arguments.recipe);
  command
      .add_option("--checkpoint", arguments.checkpoint,
                  "checkpoint or Hugging Face folder; default: the recipe's model before training")
      ->check(not_empty())
      ->type_name("DIR");
}

/// Before the work: a folder that can be made, or an empty one.
void make_new_folder(const std::string& dir) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  QRL_REQUIRE(!error, dir, "a folder that can be made", error.message(), "choose another --out");
  QRL_REQUIRE(std::filesystem::is_empty(dir, error) && !error, dir, "a new or empty folder", "one with files in it",
              "choose another --out");
}

void evaluate(const SampleArguments& arguments, dist::Collectives& world) {
  if (!arguments.out.empty() && world.is_first()) make_new_folder(arguments.out);
  const config::LoadedRecipe loaded = arguments.recipe.load();
  const config::Recipe& recipe = loaded.recipe;
  train::set_threads(recipe, world);
  world.set_time_limit(static_cast<double>(recipe.trainer.collective_timeout_s));
  base::set_log_quiet(!world.is_first());
  LoadedSampler loaded_sampler(recipe, arguments.checkpoint, world);
  const train::Policy& policy = loaded_sampler.policy;
  const auto verifier = reward::make_verifier(recipe.reward);
  const auto sets = train::load_held_out_prompts(recipe, policy.tokenizer, *verifier);
  QRL_REQUIRE(!sets.empty(), arguments.recipe.file, "held-out prompts", "none",
              "set data.val_files or data.val_generator");
  loaded_sampler.publish(recipe, *verifier, arguments.checkpoint);
  std::string responses;
  const train::Metrics metrics = train::evaluate(
      loaded_sampler.sampler.decoder, sets, recipe, train::eval_sampling(recipe, policy.config, policy.tokenizer),
      policy.tokenizer, *verifier, world, arguments.out.empty() ? nullptr : &responses);
  if (!world.is_first()) return;
  for (const auto& [name, value] : metrics) std::printf("%s: %.6g\n", name.c_str(), value);
  std::printf("\n%s", train::metrics_table(sets, metrics).c_str());
  if (arguments.out.empty()) return;
  const std::filesystem::path dir = arguments.out;
  const nlohmann::ordered_json results = {
      {"model", arguments.checkpoint.empty() ? recipe.model.path : arguments.checkpoint},
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
  state::replace_file(dir / "results.json", results.dump(2) + "\n");
  state::replace_file(dir / "responses.jsonl", responses);
  std::printf("wrote %s (results.json, responses.jsonl)\n", arguments.out.c_str());
}

void generate(const SampleArguments& arguments, dist::Collectives& world) {
  require_one_process(world, "generate");
  const config::LoadedRecipe loaded = arguments.recipe.load();
  const config::Recipe& recipe = loaded.recipe;
  train::set_threads(recipe, world);
  world.set_time_limit(static_cast<double>(recipe.trainer.collective_timeout_s));
  LoadedSampler loaded_sampler(recipe, arguments.checkpoint, world);
  const train::Policy& policy = loaded_sampler.policy;
  const auto tokens = train::PromptEncoder(recipe.data, policy.tokenizer).encode(arguments.prompt);
  QRL_REQUIRE(!tokens.empty(), "--prompt", "some text", "none");
  QRL_REQUIRE(static_cast<std::int64_t>(tokens.size()) <= recipe.data.max_prompt_length, "--prompt",
              "at most data.max_prompt_length = " + std::to_string(recipe.data.max_prompt_length) +
                  " tokens, template included",
              std::to_string(tokens.size()),
              "shorten it, or add --set data.max_prompt_length=" + std::to_string(tokens.size()));
  loaded_sampler.publish(recipe, *reward::make_verifier(recipe.reward), arguments.checkpoint);
  const types::SampleRequest request{0, tokens, 0, arguments.num_samples};
  const auto completions = loaded_sampler.sampler.decoder.complete(
      std::span(&request, 1), train::eval_sampling(recipe, policy.config, policy.tokenizer), {recipe.trainer.seed, 0});
  for (const types::Completion& completion : completions) {
    data::StreamDecoder decoder(policy.tokenizer);  // a character that was not completed is U+FFFD, not bytes
    for (const types::TokenId token : completion.tokens) std::fputs(decoder.push(token).c_str(), stdout);
    std::printf("%s\n", decoder.finish().c_str());
  }
}

}  // namespace

void add_eval(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<SampleArguments>();
  CLI::App* command = app.add_subcommand("eval", "score a policy on the recipe's held-out prompts");
  add_options(*command, *arguments);
  command
      ->add_option("--out", arguments->out,
                   "folder for results.json and responses.jsonl, every response with its verdict")
      ->check(not_empty())
      ->type_name("DIR");
  command->callback(
      [&action, arguments] { action = [arguments](dist::Collectives& world) { evaluate(*arguments, world); }; });
}

void add_generate(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<SampleArguments>();
  CLI::App* command = app.add_subcommand("generate", "complete a prompt with the recipe's evaluation sampling");
  add_options(*command, *arguments);
  command->add_option("--prompt", arguments->prompt, "text that the recipe's prompt template is filled with")
      ->required()
      ->type_name("TEXT");
  command->add_option("--n", arguments->num_samples, "samples")->check(between(1, 1024))->type_name("INT");
  command->callback(
      [&action, arguments] { action = [arguments](dist::Collectives& world) { generate(*arguments, world); }; });
}

}  // namespace qrl::app
