#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "dist/collectives.h"
#include "model/weights.h"
#include "ops/bench/ceilings.h"
#include "program.h"
#include "tick_limit.h"
#include "train/recipe/load.h"
#include "types/prompt.h"

namespace qrl::app {

struct BenchArguments {
  std::vector<std::string> overrides;
  std::string model_dir, shape = "86m";
  std::int64_t batch = 64, prompts = 8, n = 8, prompt_tokens = 128, new_tokens = 256, rounds = 3;
  std::optional<std::int64_t>
      shortest;  ///< lengths of answers are drawn from here to new_tokens; unset: all have these
  std::optional<std::int64_t> vocab_size, logit_tile_tokens;
  bool json = false, dry_run = false;
};

inline constexpr int kMaxBenchTokens = 1'048'576, kMaxBenchSequences = 65'536;

/// Adds a benchmark with the common options. Its --new must be at least `fewest_new`.
CLI::App* add_model_bench(CLI::App& program, const char* name, const char* what, BenchArguments& arguments,
                          int fewest_new = 1);
void add_sample_options(CLI::App& command, BenchArguments& arguments);
using Measure = void (*)(const BenchArguments&, dist::Collectives&);
void set_action(CLI::App& command, Action& action, const std::shared_ptr<BenchArguments>& arguments, Measure measure);

/// Returns the default recipe with --set's values and the arguments' lengths. Throws an input error for a key
/// without effect.
train::LoadedRecipe recipe_of(const std::string& name, const BenchArguments& arguments);
/// Sets keys whose value is `auto` as a run with these sequences would. Assumes 80 GiB if this machine has no GPU.
void plan_gpu(train::Recipe& recipe, const BenchArguments& arguments, const model::ModelConfig& config);
/// Returns train::activations_ahead_bytes for the run that plan_gpu assumes.
double ahead_bytes(const train::Recipe& recipe, const BenchArguments& arguments, const model::ModelConfig& config);

model::ModelConfig config_of(const BenchArguments& arguments);

/// Holds a model and its settings. The constructor measures the machine's ceilings.
struct ModelBench {
  ModelBench(const std::string& what, const BenchArguments& arguments, const dist::Collectives& world);

  nlohmann::ordered_json facts() const;

  bool on_gpu() const { return train::samples_on_gpu(loaded.recipe); }
  quant::Format quant_format() const;
  /// Describes a decode tick of `batch` sequences that have half of their new tokens.
  DecodeTick tick_of(std::int64_t batch) const;
  std::vector<types::TokenId> random_tokens(std::uint64_t stream, std::int64_t count) const;
  types::SamplingParams sampling() const;  ///< without stop tokens: every completion has new_tokens tokens

  BenchArguments args;
  std::string name;
  train::LoadedRecipe loaded;
  ops::Ceilings ceilings;
  model::HfModel hf;
  model::ModelConfig config;
};

/// Adds the peak memory to `result` and prints it.
void finish(nlohmann::ordered_json& result, const BenchArguments& arguments);

void require_whole_batch(const train::Recipe& recipe, const BenchArguments& arguments);

/// Prints what the benchmark would measure and allocate (--dry-run).
void plan_bench(const std::string& name, const BenchArguments& arguments);

}  // namespace qrl::app
