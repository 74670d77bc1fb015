// Owns what the benchmarks of a whole model (decode, learner, step) have in common: their arguments, recipe, model, and
// the machine's ceilings. Knows nothing of what they measure.
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

/// The largest values that options take.
inline constexpr int kMaxBenchTokens = 1'048'576, kMaxBenchSequences = 65'536;

/// Adds the benchmark `name` with the options that all three have. --new takes `fewest_new` or more.
CLI::App* add_model_bench(CLI::App& program, const char* name, const char* what, BenchArguments& arguments,
                          int fewest_new = 1);
/// --prompts and --n.
void add_sample_options(CLI::App& command, BenchArguments& arguments);
/// Lets the command run `measure`, or with --dry-run plan_bench.
using Measure = void (*)(const BenchArguments&, dist::Collectives&);
void set_action(CLI::App& command, Action& action, const std::shared_ptr<BenchArguments>& arguments, Measure measure);

/// The settings of the benchmark `name`: the recipe's defaults (int8 weights, bf16 learner), --set's values, lengths of
/// the arguments. An input error for keys that have no effect on it.
config::LoadedRecipe recipe_of(const std::string& name, const BenchArguments& arguments);
/// Chooses what is at `auto` as a run of the benchmark's sequences would: for the GPU that is here, else for 80 GiB.
void plan_gpu(config::Recipe& recipe, const BenchArguments& arguments, const model::ModelConfig& config);

/// The config of --model, or of --shape.
model::ModelConfig config_of(const BenchArguments& arguments);

/// A model, the recipe's settings (defaults: int8 weights, bf16 learner), and the machine's ceilings, measured in this
/// very run.
struct ModelBench {
  ModelBench(const std::string& what, const BenchArguments& arguments, const dist::Collectives& world);

  /// What was measured on, and the ceilings.
  nlohmann::ordered_json facts() const;

  bool on_gpu() const { return config::samples_on_gpu(loaded.recipe); }
  quant::Format quant_format() const;
  /// A decode tick of this many sequences halfway through their new tokens.
  DecodeTick tick_of(std::int64_t batch) const;
  std::vector<types::TokenId> random_tokens(std::uint64_t stream, std::int64_t count) const;
  types::SamplingParams sampling() const;  ///< no stop tokens: every completion has new_tokens tokens

  BenchArguments args;
  std::string name;
  config::LoadedRecipe loaded;
  ops::Ceilings ceilings;
  model::HfModel hf;
  model::ModelConfig config;
};

/// Adds the peak of memory and prints.
void finish(nlohmann::ordered_json& result, const BenchArguments& arguments);

/// An input error when a tick cannot hold the batch.
void require_whole_batch(const config::Recipe& recipe, const BenchArguments& arguments);

/// --dry-run of the benchmark `name`: checks settings and shapes, prints what it would measure and take.
void plan_bench(const std::string& name, const BenchArguments& arguments);

}  // namespace qrl::app
