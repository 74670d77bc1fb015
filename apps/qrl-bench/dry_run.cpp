#include <nlohmann/json.hpp>

#include "benchmarks.h"
#include "model_bench.h"
#include "ops/paged_attention.h"
#include "train/plan/formats.h"
#include "train/plan/machine.h"
#include "train/plan/memory_estimate.h"
#include "train/plan/options.h"
#include "train/plan/recorded_recipe.h"
#include "train/policy/quantizer.h"
#include "train/policy/sampler.h"
#include "train/recipe/load.h"

namespace qrl::app {

namespace {

using Json = nlohmann::ordered_json;

void add_sequences(Json& result, const BenchArguments& arguments) {
  result["prompts"] = arguments.prompts;
  result["samples_per_prompt"] = arguments.n;
  result["sequences"] = arguments.prompts * arguments.n;
  result["tokens"] = arguments.prompts * arguments.n * (arguments.prompt_tokens + arguments.new_tokens);
}

std::int64_t kv_bytes(const train::Recipe& recipe, const model::ModelConfig& config) {
  const std::int64_t page_bytes =
      ops::kv_page_bytes({config.num_attention_heads, config.num_key_value_heads, config.head_dim},
                         train::kv_format(recipe.quant), recipe.rollout.page_size);
  return 2 * config.num_attention_layers() * train::kv_pages(recipe) * page_bytes;
}

}  // namespace

void plan_bench(const std::string& name, const BenchArguments& arguments) {
  train::LoadedRecipe loaded = recipe_of(name, arguments);
  train::Recipe& recipe = loaded.recipe;
  const model::ModelConfig config = config_of(arguments);
  train::require_gpu_kernels(recipe, config);
  train::choose_rotation(recipe, config);
  const model::SnapshotFormats formats = train::snapshot_formats(recipe.quant);
  train::require_positions(config, arguments.prompt_tokens + arguments.new_tokens);
  model::check_formats(config, formats);
  const bool decodes_alone = name == "decode";
  if (decodes_alone) {
    recipe.rollout.max_num_seqs = arguments.batch;
    require_whole_batch(recipe, arguments);
  } else {
    (void)train::learner_options(recipe);
    plan_gpu(recipe, arguments, config);
    recipe.actor.mini_batch_size = recipe.data.train_batch_size = arguments.prompts;
    recipe.rollout.n = arguments.n;
  }
  Json result = {{"bench", name},
                 {"dry_run", true},
                 {"model", arguments.model_dir.empty() ? arguments.shape : arguments.model_dir},
                 {"parameters", model::num_parameters(config)},
                 {"rollout_device", train::samples_on_gpu(recipe) ? "cuda" : "cpu"},
                 {"learner_device", train::learns_on_gpu(recipe) ? "cuda" : "cpu"},
                 {"weights", quant::name(formats.linear)},
                 {"rotation_block", formats.rotation.block},
                 {"kv_cache", quant::name(train::kv_format(recipe.quant))},
                 {"prompt_tokens", arguments.prompt_tokens},
                 {"new_tokens", arguments.new_tokens},
                 {"rounds", arguments.rounds}};
  if (decodes_alone) {
    result["batch"] = arguments.batch;
  } else {
    result["learner_forward"] = train::name(recipe.quant.learner.forward);
    add_sequences(result, arguments);
    const std::vector<train::MemoryPart> parts = train::estimate_memory(recipe, config, 1);
    const bool take_turns = recipe.rollout.free_cache_engine;
    result["estimated_gpu_bytes"] = train::peak_bytes(parts, true, take_turns) + ahead_bytes(recipe, arguments, config);
    result["estimated_host_bytes"] = train::peak_bytes(parts, false, take_turns);
  }
  if (name != "learner") result["kv_cache_bytes"] = kv_bytes(recipe, config);
  print_result(result, arguments.json);
}

}  // namespace qrl::app
