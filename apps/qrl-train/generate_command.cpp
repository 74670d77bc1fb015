#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "commands.h"
#include "data/dataset_folder.h"
#include "given_prompts.h"
#include "loaded_sampler.h"
#include "state/gguf.h"
#include "tasks/verifier.h"
#include "train/files/checkpoint_folder.h"
#include "train/metrics/progress.h"
#include "train/plan/machine.h"
#include "train/plan/options.h"
#include "train/plan/recorded_recipe.h"
#include "train/policy/policy.h"
#include "train/prompts/text_options.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"

namespace qrl::app {

namespace {

namespace fs = std::filesystem;

/// Response limit without a recipe.
constexpr int kFolderMaxTokens = 256;

struct KeyOption {
  const char* option;
  const char* key;
  const char* type;
  const char* meaning;
};
constexpr std::array<KeyOption, 5> kKeyOptions = {
    {{"--temperature", "eval.temperature", "FLOAT", "sampling temperature; 0 is greedy"},
     {"--top-p", "eval.top_p", "FLOAT", "sample from the smallest set of tokens with this probability; 1 disables it"},
     {"--top-k", "eval.top_k", "INT", "number of most likely tokens to sample from; -1 disables it"},
     {"--max-tokens", "data.max_response_length", "INT", "maximum number of tokens per response"},
     {"--seed", "trainer.seed", "INT", "random seed; the same seed gives the same text"}}};

struct GenerateArguments {
  std::string model;       ///< a recipe file, a checkpoint or a Hugging Face folder
  std::string checkpoint;  ///< checkpoint to sample from with a recipe; "": the recipe's policy
  PromptArguments prompts;
  std::vector<std::string> overrides;  ///< values of --set
  std::vector<std::string> settings;   ///< options of kKeyOptions, as KEY=VALUE
  std::int32_t num_samples = 1;
  bool as_json = false;
};

struct Source {
  train::Recipe recipe;
  train::Policy policy;
  std::string checkpoint;
};

std::vector<std::string> overrides_of(const GenerateArguments& arguments) {
  std::vector<std::string> overrides = {"actor.max_tokens_per_micro_batch=1048576",
                                        "quant.learner.backward=model_dtype", "quant.uaq_scale=1",
                                        "rollout.kv_pages=null"};
  // Sets data.val_files, because keys for the names of fields apply only with data files.
  if (!arguments.prompts.file.empty()) {
    const auto files = nlohmann::json::array({arguments.prompts.file});
    overrides.push_back("data.val_files=" + files.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  overrides.insert(overrides.end(), arguments.overrides.begin(), arguments.overrides.end());
  overrides.insert(overrides.end(), arguments.settings.begin(), arguments.settings.end());
  return overrides;
}

bool sets(const GenerateArguments& arguments, const std::string& key) {
  return std::ranges::any_of(arguments.overrides, [&](const std::string& one) { return one.starts_with(key + "="); });
}

/// Returns a recipe for a Hugging Face folder or a GGUF file. It samples in the weights' dtype, like dtype "auto" of
/// transformers.
std::string recipe_of_folder(const model::ModelConfig& config) {
  const char* weights = config.dtype == base::DType::f32 ? "fp32" : "bf16";
  return nlohmann::json{{"quant", {{"rollout", {{"weights", weights}}}}},
                        {"data", {{"max_response_length", kFolderMaxTokens}}}}
      .dump();
}

Source open_source(const GenerateArguments& arguments) {
  const std::vector<std::string> overrides = overrides_of(arguments);
  const std::string from = given_model(arguments.model);
  std::error_code error;
  if (!fs::is_directory(from, error) && !state::is_gguf(from)) {
    QRL_REQUIRE(fs::exists(from, error), from,
                "a recipe file, a checkpoint, a Hugging Face folder, a GGUF file or a model in the Hub's cache",
                "no such file or folder",
                "download a model first (hf download NAME --local-dir DIR): this command downloads nothing");
    train::LoadedRecipe loaded = train::load_recipe(train::keys(), from, overrides, true, train::RecipeUse::sampling);
    train::take_recorded_formats(loaded, given_model(arguments.checkpoint));
    train::Policy policy = policy_of(loaded.recipe, arguments.checkpoint);
    return {std::move(loaded.recipe), std::move(policy), arguments.checkpoint};
  }
  QRL_REQUIRE(arguments.checkpoint.empty(), "--checkpoint", "a recipe file as MODEL", "the folder " + from,
              "give only one folder: qrl-train generate " + base::shell_word(arguments.checkpoint));
  train::Policy policy = train::load_policy(from);
  train::Recipe recipe =
      train::is_checkpoint(from)
          ? train::load_recipe(train::keys(), fs::path(from) / "recipe.yaml", overrides, false,
                               train::RecipeUse::record)
                .recipe
          : train::parse_recipe(train::keys(), recipe_of_folder(policy.config), from, {}, overrides, false).recipe;
  return {std::move(recipe), std::move(policy), from};
}

/// Throws an input error if KV scales or a profile must be calibrated, but training prompts are not on this machine.
void require_calibration_data(const LoadedSampler& loaded, const train::Recipe& recipe) {
  const train::DataRecipe& data = recipe.data;
  const auto missing = std::ranges::find_if(data.train_files, [](const std::string& file) {
    std::error_code error;
    return !fs::exists(data::find_data_files(file).files.front(), error);
  });
  const bool any = !data.train_files.empty() || !data.train_generator.task.empty();
  if (any && missing == data.train_files.end()) return;
  const std::string got = any ? "no file " + *missing : "no training data in the recipe";
  QRL_REQUIRE(!loaded.calibrates_kv(recipe), "quant.rollout.kv_cache fp8_e4m3", "training prompts for calibration", got,
              "add --set quant.rollout.kv_cache=bf16, or set data.train_files");
  QRL_REQUIRE(!loaded.calibrates_profile(recipe), "quant.rollout.profile", "training prompts for calibration", got,
              "add --set quant.rollout.profile=null, or set data.train_files");
}

std::string text_of(const types::Completion& completion, const data::Tokenizer& tokenizer) {
  data::StreamDecoder decoder(tokenizer);
  std::string text;
  for (const types::TokenId token : completion.tokens) text += decoder.push(token);
  return text + decoder.finish();
}

void print(const std::vector<GivenPrompt>& prompts, const std::vector<types::Completion>& completions,
           const data::Tokenizer& tokenizer, bool as_json) {
  const std::size_t num_samples = completions.size() / prompts.size();
  for (std::size_t i = 0; i < completions.size(); ++i) {
    const types::Completion& completion = completions[i];
    const std::size_t prompt_idx = i / num_samples, sample = i % num_samples;
    const char* stop = completion.stop == types::StopReason::eos ? "eos" : "length";
    std::string text = text_of(completion, tokenizer);
    const std::size_t num_tokens = completion.tokens.size();
    const std::string how =
        std::string("stop (") + stop + "), " + std::to_string(num_tokens) + (num_tokens == 1 ? " token" : " tokens");
    if (as_json) {
      text = nlohmann::ordered_json{{"prompt", prompts[prompt_idx].text},
                                    {"response", text},
                                    {"sample", sample},
                                    {"stop", stop},
                                    {"response_tokens", num_tokens}}
                 .dump();
    } else if (completions.size() > 1) {
      std::printf("--- prompt %zu sample %zu/%zu: %s\n", prompt_idx + 1, sample + 1, num_samples, how.c_str());
    }
    if (isatty(STDOUT_FILENO) == 1) text = base::printable(text);  // in a file, the bytes stay unchanged
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fputc('\n', stdout);
    if (!as_json && completions.size() == 1) base::log_info(how);
  }
}

void generate(const GenerateArguments& arguments, dist::Collectives& world) {
  set_memory_settings("the samples generated at once (--n, --max-tokens, rollout.max_num_seqs, rollout.kv_pages)");
  Source source = open_source(arguments);
  const train::Recipe& recipe = source.recipe;
  train::set_threads(recipe, world);
  std::vector<GivenPrompt> prompts = read_prompts(arguments.prompts, recipe.data);
  encode(prompts, recipe.data, source.policy);
  hint_at_line_break(prompts, recipe);
  // Limits the number of sequences to the samples requested, for a smaller KV cache.
  config::AutoValue<std::int64_t>& max_num_seqs = source.recipe.rollout.max_num_seqs;
  max_num_seqs = std::min(max_num_seqs.value, static_cast<std::int64_t>(prompts.size()) * arguments.num_samples);
  LoadedSampler loaded(std::move(source.policy), recipe, source.checkpoint, world, longest_of(prompts));
  // Uses the checkpoint's own profile, because the file that its recipe names may not exist here.
  if (loaded.quantizer.profile != nullptr && fs::is_directory(given_model(arguments.model)) &&
      !sets(arguments, "quant.rollout.profile"))
    source.recipe.quant.profile = "auto";
  require_calibration_data(loaded, recipe);
  loaded.publish(recipe, *tasks::make_verifier(train::verifier_options(recipe)));
  std::vector<types::SampleRequest> requests;
  requests.reserve(prompts.size());
  for (const GivenPrompt& prompt : prompts)
    requests.push_back({requests.size(), prompt.tokens, 0, arguments.num_samples});
  const train::Policy& policy = loaded.policy;
  const train::GenerationProgress progress("generating", std::ssize(prompts) * arguments.num_samples,
                                           loaded.sampler.decoder);
  const auto completions = loaded.sampler.decoder.complete(
      requests, train::eval_sampling(recipe, policy.config, policy.tokenizer), {recipe.trainer.seed, 0});
  print(prompts, completions, policy.tokenizer, arguments.as_json);
  loaded.say_what_it_samples(recipe);
}

void add_key_options(CLI::App& command, const std::shared_ptr<GenerateArguments>& arguments) {
  for (const KeyOption& one : kKeyOptions) {
    const std::string key = one.key;
    const std::string usual = key == "data.max_response_length"
                                  ? std::to_string(kFolderMaxTokens)
                                  : train::keys().find(key)->print(train::keys().defaults());
    command
        .add_option_function<std::string>(
            one.option,
            [arguments, key](const std::string& value) { arguments->settings.push_back(key + "=" + value); },
            std::string(one.meaning) + "; default: the recipe's " + key + ", or without a recipe " + usual)
        ->check(value_of(key))
        ->type_name(one.type);
  }
}

}  // namespace

void add_generate(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* command = app.add_subcommand("generate", "complete prompts with a model");
  command
      ->add_option("MODEL", arguments->model,
                   "run or checkpoint (with the formats, templates and eval.* sampling of its recipe), Hugging Face "
                   "folder (with its "
                   "chat template and dtype, float16 as bf16, not quantized), or recipe file (see --checkpoint)")
      ->required()
      ->check(not_empty());
  command
      ->add_option("INPUT", arguments->prompts.input,
                   "-: read one prompt from standard input, including its final newline")
      ->type_name("[-]");
  command
      ->add_option("--prompt", arguments->prompts.texts,
                   "prompt text, before the prompt template and chat template are applied; may be repeated")
      ->type_name("TEXT")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);  // in "--prompt A B", B is not a prompt
  add_text(*command, "--file", arguments->prompts.file, "FILE",
           "read prompts from a JSONL or CSV file: field prompt or question, or --set data.prompt_key=NAME");
  add_checkpoint(*command, arguments->checkpoint, "with a recipe file: ");
  command->add_option("--n", arguments->num_samples, "number of samples per prompt, 1 to 1024")
      ->check(between(1, 1024).description(""))
      ->type_name("INT")
      ->capture_default_str();
  add_key_options(*command, arguments);
  command->add_flag("--json", arguments->as_json,
                    "print one JSON object per line: prompt, response, sample, stop (eos or length), response_tokens");
  add_overrides(*command, arguments->overrides);
  set_work(*command, action, arguments, generate, [arguments] { check_prompts(arguments->prompts, arguments->model); });
}

}  // namespace qrl::app
