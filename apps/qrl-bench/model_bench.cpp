#include "model_bench.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/rng.h"
#include "base/text.h"
#include "base/threads.h"
#include "benchmarks.h"
#include "ops/isa.h"
#include "shapes.h"
#include "train/metrics/step_metrics.h"
#include "train/plan/formats.h"
#include "train/plan/gpu_plan.h"
#include "train/plan/machine.h"
#include "train/plan/recorded_recipe.h"
#include "train/policy/quantizer.h"
#include "train/recipe/automatic.h"
#include "train/recipe/catalog.h"

namespace qrl::app {

namespace {

model::HfModel model_of(const BenchArguments& arguments) {
  const model::ModelConfig config = config_of(arguments);
  if (!arguments.model_dir.empty()) return model::open_hf(arguments.model_dir);
  return {config, model::new_weights(config, 0)};
}

/// Lists the recipe keys that affect the benchmark. A trailing dot means a section.
std::vector<std::string> accepted_keys(const std::string& name) {
  const std::vector<std::string> decode = {"quant.kv_calibration.percentile",
                                           "quant.kv_calibration.margin",
                                           "rollout.device",
                                           "rollout.max_num_batched_tokens",
                                           "rollout.page_size",
                                           "rollout.gpu_memory_utilization",
                                           "rollout.enforce_eager"};
  const std::vector<std::string> learner = {"model.dtype",
                                            "quant.learner.",
                                            "rollout.bitwise",
                                            "actor.max_tokens_per_micro_batch",
                                            "optim.",
                                            "actor.logprob_chunk_tokens",
                                            "actor.activation_checkpointing",
                                            "algorithm.tbpo.",
                                            "algorithm.name",
                                            "algorithm.clip_ratio_low",
                                            "algorithm.clip_ratio_high",
                                            "algorithm.clip_ratio_c",
                                            "algorithm.loss_agg_mode",
                                            "algorithm.entropy_coef"};
  std::vector<std::string> keys = {"quant.rollout.weights",
                                   "quant.rollout.activations",
                                   "quant.rollout.granularity",
                                   "quant.rollout.ignore",
                                   "quant.rollout.rotation",
                                   "quant.rollout.rotation_block",
                                   "quant.rollout.lm_head",
                                   "quant.rollout.kv_cache",
                                   "rollout.temperature",
                                   "rollout.top_p",
                                   "rollout.top_k",
                                   "lora.rank",
                                   "lora.target_modules",
                                   "trainer.threads",
                                   "trainer.device"};
  if (name != "learner") keys.insert(keys.end(), decode.begin(), decode.end());
  if (name != "decode") keys.insert(keys.end(), learner.begin(), learner.end());
  if (name == "step") {
    for (const char* key :
         {"quant.kv_calibration.when", "rollout.max_num_seqs", "rollout.prefix_sharing", "rollout.free_cache_engine"})
      keys.emplace_back(key);
  }
  return keys;
}

const std::vector<std::string>& checked(const std::vector<std::string>& overrides, const std::string& name) {
  const std::vector<std::string> keys = accepted_keys(name);
  for (const std::string& text : overrides) {
    const std::string key = text.substr(0, text.find('='));
    const bool is_accepted = std::ranges::any_of(
        keys, [&](const std::string& each) { return each.ends_with('.') ? key.starts_with(each) : key == each; });
    if (is_accepted) continue;
    std::string known;
    for (const std::string& each : keys) known += (known.empty() ? "" : ", ") + each + (each.ends_with('.') ? "*" : "");
    base::fail_input("qrl-bench " + name + ": --set", "a key that affects it: " + known, base::quoted(key),
                     "set model, prompts and samples with their own options; a step is one update without correction");
  }
  return overrides;
}

}  // namespace

CLI::App* add_model_bench(CLI::App& program, const char* name, const char* what, BenchArguments& arguments,
                          int fewest_new) {
  CLI::App* command = program.add_subcommand(name, what);
  CLI::Option* model = add_text(*command, "--model", arguments.model_dir, "DIR",
                                "Hugging Face folder; default: random weights of --shape");
  add_word(*command, "--shape", arguments.shape, shape_names(), "NAME", "built-in shape")->excludes(model);
  add_integer(*command, "--prompt", arguments.prompt_tokens, 1, kMaxBenchTokens, "prompt tokens per sequence");
  add_integer(*command, "--new", arguments.new_tokens, fewest_new, kMaxBenchTokens, "new tokens per sequence");
  add_integer(*command, "--rounds", arguments.rounds, 1, 1'000'000, "number of rounds; the best one counts");
  add_overrides(*command, arguments.overrides);
  command->add_flag("--dry-run", arguments.dry_run,
                    "print what it would measure and the memory that it needs, and exit");
  command->add_flag("--json", arguments.json, "print one JSON object, on the last line");
  return command;
}

void add_sample_options(CLI::App& command, BenchArguments& arguments) {
  add_integer(command, "--prompts", arguments.prompts, 1, kMaxBenchSequences, "number of prompts");
  add_integer(command, "--n", arguments.n, 1, kMaxBenchSequences, "samples per prompt");
}

void set_action(CLI::App& command, Action& action, const std::shared_ptr<BenchArguments>& arguments, Measure measure) {
  const auto plan_or_measure = [measure, name = command.get_name()](const BenchArguments& given,
                                                                    dist::Collectives& world) {
    if (given.dry_run) plan_bench(name, given);
    else measure(given, world);
  };
  set_work(command, action, arguments, plan_or_measure);
}

model::ModelConfig config_of(const BenchArguments& arguments) {
  if (!arguments.model_dir.empty())
    return model::read_config(std::filesystem::path(arguments.model_dir) / "config.json");
  model::ModelConfig config = built_in_shape(arguments.shape);
  config.vocab_size = arguments.vocab_size.value_or(config.vocab_size);
  return config;
}

train::LoadedRecipe recipe_of(const std::string& name, const BenchArguments& arguments) {
  QRL_REQUIRE(arguments.shortest.value_or(1) <= arguments.new_tokens, "qrl-bench step: --shortest",
              "at most --new, " + std::to_string(arguments.new_tokens), std::to_string(*arguments.shortest));
  // Figures stay comparable with those of 0.2, so the benchmarks keep its defaults.
  constexpr std::string_view kBase =
      "{trainer: {seed: 0}, rollout: {bitwise: false}, quant: {learner: {forward: bf16}}}";
  train::LoadedRecipe loaded =
      train::parse_recipe(train::keys(), kBase, "bench", ".", checked(arguments.overrides, name), false);
  train::Recipe& r = loaded.recipe;
  train::set_former_automatic(r, r, {});
  r.data.max_prompt_length = arguments.prompt_tokens;
  r.data.max_response_length = arguments.new_tokens;
  const std::int64_t longest = arguments.prompt_tokens + arguments.new_tokens;
  if (!r.actor.max_tokens_per_micro_batch.is_auto)  // with auto, plan_gpu chooses at least `longest`
    r.actor.max_tokens_per_micro_batch = std::max(r.actor.max_tokens_per_micro_batch.value, longest);
  return loaded;
}

namespace {

train::Recipe run_of(const train::Recipe& recipe, const BenchArguments& arguments) {
  train::Recipe run = recipe;
  run.actor.mini_batch_size = run.data.train_batch_size = arguments.prompts;
  run.rollout.n = arguments.n;
  return run;
}

}  // namespace

void plan_gpu(train::Recipe& recipe, const BenchArguments& arguments, const model::ModelConfig& config) {
  if (!train::learns_on_gpu(recipe)) return;
  const train::Recipe run = run_of(recipe, arguments);
  train::set_auto(train::choose_settings(run, config, 1, train::gpu_to_plan_for(run).bytes), recipe);
}

double ahead_bytes(const train::Recipe& recipe, const BenchArguments& arguments, const model::ModelConfig& config) {
  const train::Recipe run = run_of(recipe, arguments);
  return train::activations_ahead_bytes(run, config, 1, train::gpu_to_plan_for(run).bytes);
}

void require_whole_batch(const train::Recipe& recipe, const BenchArguments& arguments) {
  QRL_REQUIRE(recipe.rollout.max_num_batched_tokens >= arguments.batch, "qrl-bench decode",
              "rollout.max_num_batched_tokens of at least --batch = " + std::to_string(arguments.batch),
              std::to_string(recipe.rollout.max_num_batched_tokens),
              "raise it with --set: a tick decodes the whole batch");
}

ModelBench::ModelBench(const std::string& what, const BenchArguments& arguments, const dist::Collectives& world)
    : args(arguments),
      name(what),
      loaded(recipe_of(what, arguments)),
      ceilings((train::set_threads(loaded.recipe, world), ops::measure_ceilings())),
      hf(model_of(args)),
      config(hf.config) {
  train::require_gpu_kernels(loaded.recipe, config);
  train::choose_rotation(loaded.recipe, config);
  if (name != "decode") plan_gpu(loaded.recipe, args, config);
  train::reset_peak_memory();  // the reported peak memory excludes measure_ceilings()
}

quant::Format ModelBench::quant_format() const { return train::snapshot_formats(loaded.recipe.quant).linear; }

nlohmann::ordered_json ModelBench::facts() const {
  return {{"bench", name},
          {"model", args.model_dir.empty() ? args.shape : args.model_dir},
          {"isa", ops::name(ops::isa())},
          {"rollout_device", on_gpu() ? "cuda" : "cpu"},
          {"learner_device", train::learns_on_gpu(loaded.recipe) ? "cuda" : "cpu"},
          {"threads", base::num_threads()},
          {"weights", quant::name(quant_format())},
          {"rotation_block", train::snapshot_formats(loaded.recipe.quant).rotation.block},
          {"learner_forward", train::name(loaded.recipe.quant.learner.forward)},
          {"kv_cache", quant::name(train::kv_format(loaded.recipe.quant))},
          {"ceiling_int8_tops", ceilings.int8_ops_per_s * 1e-12},
          {"ceiling_bf16_tflops", ceilings.bf16_flops_per_s * 1e-12},
          {"ceiling_f32_tflops", ceilings.f32_flops_per_s * 1e-12},
          {"ceiling_dram_gb_per_s", ceilings.dram_bytes_per_s * 1e-9}};
}

DecodeTick ModelBench::tick_of(std::int64_t batch) const {
  return {static_cast<double>(batch),
          static_cast<double>(args.prompt_tokens) + static_cast<double>(args.new_tokens) / 2,
          train::kv_format(loaded.recipe.quant), loaded.recipe.rollout.page_size};
}

std::vector<types::TokenId> ModelBench::random_tokens(std::uint64_t stream, std::int64_t count) const {
  base::RandomStream random(0, base::RandomPurpose::generator, stream);
  std::vector<types::TokenId> tokens(static_cast<std::size_t>(count));
  for (types::TokenId& token : tokens)
    token = static_cast<types::TokenId>(random.below(static_cast<std::uint64_t>(config.vocab_size)));
  return tokens;
}

types::SamplingParams ModelBench::sampling() const {
  types::SamplingParams params;
  params.temperature = static_cast<float>(loaded.recipe.rollout.temperature);
  params.top_p = static_cast<float>(loaded.recipe.rollout.top_p);
  params.top_k = static_cast<std::int32_t>(loaded.recipe.rollout.top_k);
  params.max_kept = train::kMaxKeptTokens;
  params.max_new_tokens = static_cast<std::int32_t>(args.new_tokens);
  return params;
}

void finish(nlohmann::ordered_json& result, const BenchArguments& arguments) {
  result["peak_memory_gib"] = train::peak_memory_gib();
  print_result(result, arguments.json);
}

}  // namespace qrl::app
