#include "train/plan/gpu_plan.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "config/printer.h"
#include "decoder/device/device_backend.h"
#include "learner/tensors/cuda_library.h"
#include "train/plan/machine.h"
#include "train/plan/memory_estimate.h"
#include "train/plan/options.h"
#include "train/plan/recorded_recipe.h"

namespace qrl::train {

namespace {

constexpr double kGiB = 1 << 30;
constexpr std::int64_t kFewestSequences = 256, kMostSequences = 1024, kSequenceStep = 64;
constexpr std::int64_t kMostTokens = 32'768, kFewTokens = 2048, kTokenStep = 256;
constexpr std::int64_t kMostChunk = 4096, kLeastChunk = 1024;
constexpr double kLogitsShare = 0.1;

std::int64_t round_up(std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; }
std::int64_t divide_up(std::int64_t value, std::int64_t parts) { return (value + parts - 1) / parts; }

double kv_room(const Recipe& recipe, const std::vector<MemoryPart>& parts, double gpu_bytes) {
  const auto kept_back = static_cast<double>(decoder::kept_back_bytes());
  return std::max(0.0,
                  gpu_memory_share(recipe) * gpu_bytes - kept_back - phase_bytes(parts, true, MemoryPhase::always));
}

void choose_sequences(Recipe& recipe, const model::ModelConfig& model, int num_ranks, double gpu_bytes) {
  if (!recipe.rollout.max_num_seqs.is_auto || !samples_on_gpu(recipe)) return;
  const std::int64_t prompts = recipe.data.gen_batch_size.value_or(recipe.data.train_batch_size);
  const std::int64_t drawn = round_up(divide_up(prompts, num_ranks) * recipe.rollout.n, kSequenceStep);
  const std::int64_t most = std::min({drawn, kMostSequences, recipe.rollout.max_num_batched_tokens});
  if (most <= kFewestSequences) return;
  recipe.rollout.max_num_seqs.value = most;
  const std::vector<MemoryPart> parts = estimate_memory(recipe, model, num_ranks);
  const double of_one = phase_bytes(parts, true, MemoryPhase::sampling) / static_cast<double>(most);
  const std::int64_t longest = recipe.data.max_prompt_length + recipe.data.max_response_length;
  const std::int64_t page = recipe.rollout.page_size;
  const std::int64_t fitting = recipe.rollout.kv_pages > 0
                                   ? recipe.rollout.kv_pages / divide_up(longest, page)
                                   : static_cast<std::int64_t>(kv_room(recipe, parts, gpu_bytes) / of_one);
  recipe.rollout.max_num_seqs.value =
      std::max(kFewestSequences, std::min(most, fitting / kSequenceStep * kSequenceStep));
}

double least_peak_bytes(const Recipe& recipe, std::vector<MemoryPart> parts, double gpu_bytes) {
  if (samples_on_gpu(recipe) && recipe.rollout.kv_pages == 0) {
    const double room = kv_room(recipe, parts, gpu_bytes);
    for (MemoryPart& part : parts)
      if (part.on_gpu && part.phase == MemoryPhase::sampling) part.bytes = std::min(part.bytes, room);
  }
  return peak_bytes(parts, true, recipe.rollout.free_cache_engine);
}

bool fits(const Recipe& recipe, const model::ModelConfig& model, int num_ranks, double gpu_bytes) {
  return least_peak_bytes(recipe, estimate_memory(recipe, model, num_ranks), gpu_bytes) <=
         learner::kPlannedGpuShare * gpu_bytes;
}

void choose_chunk(Recipe& recipe, const model::ModelConfig& model, double gpu_bytes) {
  if (!recipe.actor.logprob_chunk_tokens.is_auto) return;
  // bytes per token of fp32 logits and their bf16 gradient
  const double logits = 1.5 * 4 * static_cast<double>(model.vocab_size);
  std::int64_t chunk = kMostChunk;
  while (chunk > kLeastChunk && logits * static_cast<double>(chunk) > kLogitsShare * gpu_bytes) chunk /= 2;
  recipe.actor.logprob_chunk_tokens.value = chunk;
}

/// Chooses the largest micro-batch that fits, between `fewest` and `most` tokens. Returns whether one fits.
bool choose_tokens(Recipe& recipe, const model::ModelConfig& model, int num_ranks, double gpu_bytes,
                   std::int64_t fewest, std::int64_t most) {
  if (!recipe.actor.max_tokens_per_micro_batch.is_auto) return fits(recipe, model, num_ranks, gpu_bytes);
  for (std::int64_t tokens = most; tokens >= fewest; tokens -= kTokenStep) {
    recipe.actor.max_tokens_per_micro_batch.value = tokens;
    if (fits(recipe, model, num_ranks, gpu_bytes)) return true;
  }
  recipe.actor.max_tokens_per_micro_batch.value = fewest;
  return fits(recipe, model, num_ranks, gpu_bytes);
}

}  // namespace

PlannedGpu gpu_to_plan_for(const Recipe& recipe) {
  constexpr double kExampleBytes = 80 * kGiB;
  const bool is_here = missing_gpu(recipe, 0).empty();
  return {is_here ? learner::gpu_bytes(0) : kExampleBytes, is_here};
}

bool has_auto(const Recipe& recipe) {
  return recipe.rollout.max_num_seqs.is_auto || recipe.actor.max_tokens_per_micro_batch.is_auto ||
         recipe.actor.logprob_chunk_tokens.is_auto || recipe.actor.activation_checkpointing.is_auto;
}

AutoSettings auto_settings_of(const Recipe& recipe) {
  return {recipe.rollout.max_num_seqs, recipe.actor.max_tokens_per_micro_batch, recipe.actor.logprob_chunk_tokens,
          recipe.actor.activation_checkpointing};
}

void set_auto(const AutoSettings& settings, Recipe& recipe) {
  const auto set = [](auto& member, auto value) {
    if (member.is_auto) member = value;
  };
  set(recipe.rollout.max_num_seqs, settings.max_num_seqs);
  set(recipe.actor.max_tokens_per_micro_batch, settings.max_tokens_per_micro_batch);
  set(recipe.actor.logprob_chunk_tokens, settings.logprob_chunk_tokens);
  set(recipe.actor.activation_checkpointing, settings.activation_checkpointing);
}

void set_auto(const AutoSettings& settings, const std::string& origin, LoadedRecipe& loaded) {
  const Recipe before = loaded.recipe;
  set_auto(settings, loaded.recipe);
  for (const config::KeyChange& change : config::changes_among(*before.keys, kAutoKeys, before, loaded.recipe))
    loaded.origins[change.key] = origin;
  print_again(loaded);
}

double activations_ahead_bytes(const Recipe& recipe, const model::ModelConfig& model, int num_ranks, double gpu_bytes) {
  if (!learns_on_gpu(recipe) || recipe.rollout.bitwise) return 0;
  if (tokens_of_update(recipe, num_ranks) <= recipe.actor.max_tokens_per_micro_batch) return 0;
  const std::vector<MemoryPart> parts = estimate_memory(recipe, model, num_ranks);
  const double activations =
      static_cast<double>(recipe.actor.max_tokens_per_micro_batch) * activation_bytes(recipe, model);
  const auto learning = [&](double more) {
    std::vector<MemoryPart> all = parts;
    all.push_back({"", more, false, true, MemoryPhase::learning});
    return least_peak_bytes(recipe, std::move(all), gpu_bytes);
  };
  const double with = learning(activations);
  return with <= learner::kPlannedGpuShare * gpu_bytes ? with - learning(0) : 0;
}

double gpu_peak_bytes(const Recipe& recipe, const model::ModelConfig& model, int num_ranks, double gpu_bytes) {
  return least_peak_bytes(recipe, estimate_memory(recipe, model, num_ranks), gpu_bytes) +
         activations_ahead_bytes(recipe, model, num_ranks, gpu_bytes);
}

AutoSettings choose_settings(const Recipe& recipe, const model::ModelConfig& model, int num_ranks, double gpu_bytes) {
  Recipe chosen = recipe;
  choose_sequences(chosen, model, num_ranks, gpu_bytes);
  choose_chunk(chosen, model, gpu_bytes);
  const std::int64_t sequence = recipe.data.max_prompt_length + recipe.data.max_response_length;
  const std::int64_t longest = std::max(sequence, recipe.sft.max_length.value_or(0));
  const std::int64_t fewest = round_up(longest, kTokenStep);
  const std::int64_t most =
      std::max(fewest, round_up(std::min(tokens_of_update(recipe, num_ranks), kMostTokens), kTokenStep));
  const bool may_recompute = chosen.actor.activation_checkpointing.is_auto && !chosen.rollout.bitwise;
  const std::int64_t enough = may_recompute ? std::clamp(kFewTokens, fewest, most) : fewest;
  if (choose_tokens(chosen, model, num_ranks, gpu_bytes, enough, most) || !may_recompute)
    return auto_settings_of(chosen);
  chosen.actor.activation_checkpointing.value = true;
  (void)choose_tokens(chosen, model, num_ranks, gpu_bytes, fewest, most);
  return auto_settings_of(chosen);
}

AutoSettings recorded_settings(const Recipe& recipe, dist::Collectives& world) {
  AutoSettings settings;
  if (const auto recorded = world.is_first() ? recorded_recipe(recipe) : std::nullopt)
    settings = auto_settings_of(*recorded);
  world.broadcast(std::as_writable_bytes(std::span(&settings, 1)), 0);
  return settings;
}

std::string decide_auto(const AutoSettings& taken, const model::ModelConfig& model, int num_ranks, double gpu_bytes,
                        LoadedRecipe& loaded) {
  if (!has_auto(loaded.recipe)) return {};
  const bool is_taken = taken != AutoSettings{};
  set_auto(is_taken ? taken : choose_settings(loaded.recipe, model, num_ranks, gpu_bytes),
           is_taken ? "auto, from the checkpoint" : "auto", loaded);
  return describe_gpu_plan(loaded.recipe, model, num_ranks, gpu_bytes) + (is_taken ? ", from the checkpoint" : "");
}

std::string describe_gpu_plan(const Recipe& recipe, const model::ModelConfig& model, int num_ranks, double gpu_bytes) {
  const bool recomputes = recipe.actor.activation_checkpointing && !recipe.rollout.bitwise;
  const double ahead = activations_ahead_bytes(recipe, model, num_ranks, gpu_bytes);
  return "micro-batches of " + std::to_string(recipe.actor.max_tokens_per_micro_batch.value) + " tokens" +
         (recomputes ? " with recomputed activations" : "") + ", logits of " +
         std::to_string(recipe.actor.logprob_chunk_tokens.value) + " tokens at once, " +
         std::to_string(recipe.rollout.max_num_seqs.value) + " sequences decoded at once: about " +
         memory_amount(gpu_peak_bytes(recipe, model, num_ranks, gpu_bytes)) + " of " + memory_amount(gpu_bytes) +
         (ahead > 0 ? ", with the next micro-batch's activations" : "");
}

void require_gpu_memory(const Recipe& recipe, const model::ModelConfig& model, int num_ranks, double gpu_bytes,
                        bool is_resumed) {
  const double known = certain_bytes(estimate_memory(recipe, model, num_ranks), true);
  QRL_REQUIRE(
      known <= gpu_bytes, "trainer.device: cuda", "a plan within the GPU's " + memory_amount(gpu_bytes),
      memory_amount(known) + " of weights, gradients and moments alone",
      "train adapters (lora.rank), shard moments across processes (trainer.zero_stage 1), or use a smaller model");
  const double peak = gpu_peak_bytes(recipe, model, num_ranks, gpu_bytes);
  if (peak <= gpu_bytes) return;
  base::log_warning("the plan needs about " + memory_amount(peak) + " of the GPU's " + memory_amount(gpu_bytes) +
                    (is_resumed ? ": lower rollout.gpu_memory_utilization, set rollout.free_cache_engine, or lower "
                                  "actor.max_tokens_per_micro_batch with --allow-change"
                                : ": lower actor.max_tokens_per_micro_batch, actor.logprob_chunk_tokens or "
                                  "rollout.gpu_memory_utilization, or set actor.activation_checkpointing and "
                                  "rollout.free_cache_engine"));
}

}  // namespace qrl::train
