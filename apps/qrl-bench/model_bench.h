// Owns the common part of the benchmarks of a whole model: decode, learner and step.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "config/reader.h"
#include "dist/collectives.h"
#include "model/weights.h"
#include "ops/bench/ceilings.h"
#include "tick_limit.h"
#include "types/prompt.h"

namespace qrl::app {

struct BenchArguments {
  std::vector<std::string> overrides;
  std::string model_dir, shape = "86m";
  std::int64_t batch = 64, prompts = 8, n = 8, prompt_tokens = 128, new_tokens = 256, rounds = 3;
  std::optional<std::int64_t> vocab_size, logit_tile_tokens;
  bool json = false, dry_run = false;
};

/// Limit the values of options.
inline constexpr int kMaxBenchTokens = 1'048'576, kMaxBenchSequences = 65'536;

/// Adds a benchmark with the common options. --new takes at least `fewest_new`.
CLI::App* add_model_bench(CLI::App& program, const char* name, const char* what, BenchArguments& arguments,
                          int fewest_new = 1);
/// Adds --prompts and --n.
void add_sample_options(CLI::App& command, BenchArguments& arguments);
/// Sets the command's action: `measure`, or plan_bench with --dry-run.
using Measure = void (*)(const BenchArguments&, dist::Collectives&);
void set_action(CLI::App& command, Action& action, const std::shared_ptr<BenchArguments>& arguments, Measure measure);

/// Returns a benchmark's settings: the recipe's defaults (int8 weights, bf16 learner), --set's values, and the
/// arguments' lengths. Throws an input error for keys that do not affect it.
config::LoadedRecipe recipe_of(const std::string& name, const BenchArguments& arguments);
/// Sets the keys at `auto` like a run of the benchmark's sequences: for this machine's GPU, else for one of 80 GiB.
void plan_gpu(config::Recipe& recipe, const BenchArguments& arguments, const model::ModelConfig& config);
/// The bytes of a second micro-batch's activations, as that run keeps them.
double ahead_bytes(const config::Recipe& recipe, const BenchArguments& arguments, const model::ModelConfig& config);

/// Returns the config of --model, or of --shape.
model::ModelConfig config_of(const BenchArguments& arguments);

/// Holds a model, its settings, and the machine's ceilings, measured by the constructor.
struct ModelBench {
  ModelBench(const std::string& what, const BenchArguments& arguments, const dist::Collectives& world);

  /// Returns the description of the machine and model, and the ceilings.
  nlohmann::ordered_json facts() const;

  bool on_gpu() const { return config::samples_on_gpu(loaded.recipe); }
  quant::Format quant_format() const;
  /// Returns a decode tick of `batch` sequences that have half of their new tokens.
  DecodeTick tick_of(std::int64_t batch) const;
  std::vector<types::TokenId> random_tokens(std::uint64_t stream, std::int64_t count) const;
  types::SamplingParams sampling() const;  ///< no stop tokens, so every completion has new_tokens tokens

  BenchArguments args;
  std::string name;
  config::LoadedRecipe loaded;
  ops::Ceilings ceilings;
  model::HfModel hf;
  model::ModelConfig config;
};

/// Adds the peak memory and prints the result.
void finish(nlohmann::ordered_json& result, const BenchArguments& arguments);

void require_whole_batch(const config::Recipe& recipe, const BenchArguments& arguments);

/// Runs --dry-run: checks settings and shapes, and prints what would be measured and the memory.
void plan_bench(const std::string& name, const BenchArguments& arguments);

}  // namespace qrl::app
