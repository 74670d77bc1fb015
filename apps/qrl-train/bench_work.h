// Owns what bench decode, learner and step have in common: their arguments, recipe, model, and the machine's ceilings.
// Knows nothing of what they measure.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "config/reader.h"
#include "dist/collectives.h"
#include "model/weights.h"
#include "ops/ceilings.h"
#include "train/formats.h"
#include "train/work_estimate.h"
#include "types/prompt.h"

namespace qrl::app {

struct BenchArguments {
  std::vector<std::string> overrides;
  std::string model_dir, shape = "86m";
  std::int64_t batch = 64, prompts = 8, n = 8, prompt_tokens = 128, new_tokens = 256, rounds = 3;
  std::optional<std::int64_t> vocab_size, logit_tile_tokens;
  bool json = false, dry_run = false;
};

/// The settings of the benchmark `name`: the recipe's defaults (int8 weights, bf16 learner), --set's values, lengths of
/// the arguments. Refuses keys that it would not hear.
config::LoadedRecipe recipe_of(const std::string& name, const BenchArguments& arguments);

/// The config of --model, or of --shape.
model::ModelConfig config_of(const BenchArguments& arguments);

/// Everything the three benchmarks share: a model, the recipe's settings (defaults: int8 weights, bf16 learner), the
/// machine's ceilings measured in this very run.
struct Bench {
  Bench(const std::string& what, const BenchArguments& arguments, const dist::Collectives& world);

  /// What was measured on, and the ceilings.
  nlohmann::ordered_json facts() const;

  bool on_gpu() const { return config::samples_on_gpu(loaded.recipe); }
  quant::Format quant_format() const { return train::snapshot_formats(loaded.recipe.quant).linear; }
  /// A decode tick of this many sequences halfway through their new tokens.
  train::DecodeTick tick_of(std::int64_t batch) const;
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

void bench_decode(const BenchArguments& arguments, dist::Collectives& world);
void bench_learner(const BenchArguments& arguments, dist::Collectives& world);
void bench_step(const BenchArguments& arguments, dist::Collectives& world);

/// --dry-run of the benchmark `name`: checks settings and shapes, prints what it would measure and take.
void plan_bench(const std::string& name, const BenchArguments& arguments, dist::Collectives& world);

}  // namespace qrl::app
