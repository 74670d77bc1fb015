#include "train/plan/options.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/threads.h"
#include "data/chat_template.h"
#include "decoder/kv/delta_states.h"
#include "train/plan/formats.h"
#include "train/prompts/conversations.h"
#include "train/prompts/text_options.h"
#include "train/recipe/catalog.h"

namespace qrl::train {

namespace {

types::SamplingParams sampling(const Recipe& recipe, const model::ModelConfig& config, const data::Tokenizer& tokenizer,
                               const std::vector<std::string>& stop) {
  types::SamplingParams params;
  params.stop_strings = stop;
  params.max_new_tokens = static_cast<std::int32_t>(recipe.data.max_response_length);
  params.stop_tokens = config.eos_token_ids;
  const auto add = [&](types::TokenId token) {
    auto& ends = params.stop_tokens;
    if (token >= 0 && std::ranges::find(ends, token) == ends.end()) ends.push_back(token);
  };
  add(tokenizer.eos());
  // Also stops at the end of turn: a base model's end token ends texts, not turns.
  const data::ChatTemplate chat = data::choose_template(recipe.data, tokenizer);
  add(tokenizer.added_token_id(chat.end_of_turn));
  if (chat.with_tools) add(tokenizer.added_token_id(chat.with_tools->end_of_turn));
  return params;
}

}  // namespace

model::SnapshotFormats sampler_formats(const Recipe& recipe) {
  model::SnapshotFormats formats = snapshot_formats(recipe.quant);
  if (recipe.lora.publish == LoraPublish::adapter) formats.lora = recipe.lora;
  return formats;
}

ops::SampleParams sample_params(const RolloutRecipe& rollout) {
  return {static_cast<float>(rollout.temperature), static_cast<float>(rollout.top_p),
          static_cast<std::int32_t>(rollout.top_k)};
}

types::SamplingParams train_sampling(const Recipe& recipe, const model::ModelConfig& config,
                                     const data::Tokenizer& tokenizer) {
  types::SamplingParams params = sampling(recipe, config, tokenizer, recipe.rollout.stop);
  params.temperature = static_cast<float>(recipe.rollout.temperature);
  params.top_p = static_cast<float>(recipe.rollout.top_p);
  params.top_k = static_cast<std::int32_t>(recipe.rollout.top_k);
  params.max_kept = kMaxKeptTokens;
  params.wants_routes = config.has_experts();
  return params;
}

types::RouteReplay replay_of_old_logprobs(const Recipe& recipe, const types::MicroBatch& batch) {
  const bool replays = recipe.algorithm.router_replay == RouterReplay::rollout && !batch.sampler_routes.empty();
  return replays ? types::RouteReplay::sampler : types::RouteReplay::none;
}

types::SamplingParams eval_sampling(const Recipe& recipe, const model::ModelConfig& config,
                                    const data::Tokenizer& tokenizer) {
  types::SamplingParams params = sampling(recipe, config, tokenizer, recipe.eval.stop.value_or(recipe.rollout.stop));
  params.temperature = static_cast<float>(recipe.eval.temperature);
  params.top_p = static_cast<float>(recipe.eval.top_p);
  params.top_k = static_cast<std::int32_t>(recipe.eval.top_k);
  return params;
}

std::int64_t pages_of_longest(const Recipe& recipe, std::optional<std::int64_t> longest_prompt_tokens) {
  const std::int64_t page = recipe.rollout.page_size;
  const std::int64_t longest =
      longest_prompt_tokens.value_or(recipe.data.max_prompt_length) + recipe.data.max_response_length;
  return (longest + page - 1) / page;
}

std::int64_t kv_pages(const Recipe& recipe, std::optional<std::int64_t> longest_prompt_tokens) {
  // Conversations that wait for the environment keep their pages.
  const std::int64_t num_seqs = std::max<std::int64_t>(recipe.rollout.max_num_seqs, most_open_conversations(recipe));
  const std::int64_t given = recipe.rollout.kv_pages;
  return given > 0 ? given : pages_of_longest(recipe, longest_prompt_tokens) * num_seqs;
}

std::int64_t most_sequences_with_states(const Recipe& recipe) {
  return std::max<std::int64_t>(recipe.rollout.max_num_seqs, most_open_conversations(recipe));
}

std::int64_t state_slots(const Recipe& recipe) {
  return decoder::num_state_slots(most_sequences_with_states(recipe), recipe.rollout.prefix_sharing);
}

void choose_sequences_by_states(const model::ModelConfig& config, std::uint64_t memory_bytes, LoadedRecipe& loaded) {
  constexpr std::int64_t kFewest = 8;
  const std::string key = "rollout.max_num_seqs";
  Recipe& recipe = loaded.recipe;
  const std::int64_t slot_bytes = decoder::state_slot_bytes(config), before = recipe.rollout.max_num_seqs;
  if (loaded.origins.contains(key) || samples_on_gpu(recipe) || slot_bytes == 0 || memory_bytes == 0) return;
  const auto room = static_cast<std::int64_t>(memory_bytes / 4);
  std::int64_t& most = recipe.rollout.max_num_seqs.value;
  while (most > kFewest && state_slots(recipe) * slot_bytes > room) most /= 2;
  if (most == before) return;
  loaded.origins[key] = "by the memory of DeltaNet states";
  print_again(loaded);
}

double gpu_memory_share(const Recipe& recipe) {
  // vLLM's and veRL's defaults. A learner on the GPU allocates activations later, and needs more free memory.
  constexpr double kGpuShare = 0.9, kShareBesideLearner = 0.5;
  const double given = recipe.rollout.gpu_memory_utilization;
  return given > 0 ? given : learns_on_gpu(recipe) ? kShareBesideLearner : kGpuShare;
}

learner::LearnerOptions learner_options(const Recipe& recipe) {
  learner::LearnerOptions options;
  options.num_threads = base::num_threads();
  options.device = learns_on_gpu(recipe) ? base::Device::cuda : base::Device::cpu;
  options.numerics = recipe.quant.learner;
  options.numerics.compute = recipe.model.dtype;
  options.numerics.bitwise = recipe.rollout.bitwise;
  options.numerics.kv_format = kv_format(recipe.quant);
  options.numerics.f32_lm_head = snapshot_formats(recipe.quant).f32_lm_head;
  options.numerics.own_lm_head = snapshot_formats(recipe.quant).int8_lm_head;
  static_cast<learner::MemoryOptions&>(options) = recipe.actor;
  options.shard_optimizer = recipe.trainer.zero_stage > 0;
  options.optim = recipe.optim;
  options.lora = recipe.lora;
  options.lora_seed = recipe.trainer.seed;
  options.total_updates = updates_per_step(recipe) * recipe.trainer.total_training_steps;
  return options;
}

learner::LossOptions loss_options(const Recipe& recipe) {
  learner::LossOptions options;
  options.loss = recipe.algorithm.name.get();
  options.method = recipe.rollout_correction.method.get();
  options.kl = recipe.algorithm.kl_loss_type.get();
  options.algorithm = recipe.algorithm;
  options.has_teacher = !recipe.algorithm.teacher.path.empty();
  options.correction = recipe.rollout_correction;
  options.own = recipe.own;
  options.max_response_length = recipe.data.max_response_length;
  return options;
}

std::int64_t total_steps(const Recipe& recipe, std::int64_t num_prompts) {
  if (recipe.trainer.total_epochs == 0) return recipe.trainer.total_training_steps;
  const std::int64_t batch = recipe.data.train_batch_size;
  return (recipe.trainer.total_epochs * num_prompts + batch - 1) / batch;
}

std::int64_t updates_per_step(const Recipe& recipe) {
  return recipe.data.train_batch_size / prompts_per_update(recipe) * recipe.actor.ppo_epochs;
}

}  // namespace qrl::train
