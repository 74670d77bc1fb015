// Writes a model's activations, to compare implementations (scripts/accept/parity.py).
#include <algorithm>

#include "commands.h"
#include "decoder/cpu/teacher_forcing.h"
#include "given_prompts.h"
#include "loaded_sampler.h"
#include "state/safetensors.h"
#include "tasks/verifier.h"
#include "train/plan/machine.h"
#include "train/policy/policy.h"
#include "train/prompts/text_options.h"

namespace qrl::app {

namespace {

struct DumpArguments {
  RecipeArguments recipe;
  std::string checkpoint, prompt, out;
};

base::Buffer copied(const float* from, base::Shape shape) {
  base::Buffer to(base::DType::f32, shape);
  std::copy_n(from, shape.numel(), to.as<float>());
  return to;
}

/// Writes tokens (I32 [T]), the residual stream (embedding, layers.0 …; fp32 [T, D]) and logits (fp32 [T, V]).
void write(const std::string& file, const model::Snapshot& snapshot, const std::vector<types::TokenId>& tokens) {
  const decoder::LayerOutputs outputs = decoder::forced_layer_outputs(snapshot, tokens);
  const std::vector<float> logits = decoder::forced_logits(snapshot, tokens);
  const auto num_tokens = static_cast<std::int64_t>(tokens.size());
  const std::int64_t width = snapshot.config().hidden_size;
  std::vector<base::Buffer> kept;
  std::vector<std::string> names = {"tokens"};
  std::copy(tokens.begin(), tokens.end(),
            kept.emplace_back(base::DType::i32, base::Shape{num_tokens}).as<types::TokenId>());
  for (std::int64_t stage = 0; stage <= snapshot.config().num_hidden_layers; ++stage) {
    names.push_back(stage == 0 ? "embedding" : "layers." + std::to_string(stage - 1));
    kept.push_back(copied(outputs.x_LTD.as<float>() + stage * num_tokens * width, {num_tokens, width}));
  }
  names.emplace_back("logits");
  kept.push_back(copied(logits.data(), {num_tokens, snapshot.config().vocab_size}));
  std::vector<state::NamedView> tensors;
  for (std::size_t i = 0; i < kept.size(); ++i) tensors.push_back({names[i], kept[i].view(), {}});
  state::write_safetensors(file, tensors, {{"format", "qrl-train dump"}});
}

void dump(const DumpArguments& arguments, dist::Collectives& world) {
  require_new_file(arguments.out, "--out");
  RecipeArguments on_cpu = arguments.recipe;
  for (const char* key : {"trainer.device", "rollout.device"}) on_cpu.overrides.push_back(std::string(key) + "=cpu");
  const train::Recipe recipe = on_cpu.load(true, train::RecipeUse::sampling).recipe;
  train::set_threads(recipe, world);
  train::Policy policy = policy_of(recipe, arguments.checkpoint);
  PromptArguments given;
  given.texts = {arguments.prompt};
  std::vector<GivenPrompt> prompts = read_prompts(given, recipe.data);
  encode(prompts, recipe.data, policy);
  LoadedSampler loaded(std::move(policy), recipe, arguments.checkpoint, world, longest_of(prompts));
  loaded.publish(recipe, *tasks::make_verifier(train::verifier_options(recipe)));
  write(arguments.out, loaded.sampler.snapshot, prompts.front().tokens);
  loaded.say_what_it_samples(recipe);
}

}  // namespace

void add_dump(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<DumpArguments>();
  CLI::App* command = app.add_subcommand("dump", "run a prompt on the CPU and write every layer's output");
  add_recipe_arguments(*command, arguments->recipe);
  command
      ->add_option("--prompt", arguments->prompt,
                   "prompt text, before the prompt template and chat template are applied")
      ->type_name("TEXT")
      ->required();
  add_text(*command, "--out", arguments->out, "FILE",
           "new file for tokens, embedding, layers.0, layers.1, … (residual stream, fp32) and logits; computed with "
           "weights and activations in the recipe's formats, keys and values in fp32")
      ->required();
  add_checkpoint(*command, arguments->checkpoint);
  set_work(*command, action, arguments, dump);
}

}  // namespace qrl::app
