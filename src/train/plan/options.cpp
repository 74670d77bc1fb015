#include "train/plan/options.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/threads.h"
#include "data/chat_template.h"
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
  const data::ChatTemplate chat = data::choose_template(template_options(recipe.data), tokenizer);
  add(tokenizer.added_token_id(chat.end_of_turn));
  if (chat.with_tools) add(tokenizer.added_token_id(chat.with_tools->end_of_turn));
  return params;
}

learner::AlgorithmOptions algorithm_options(const AlgorithmRecipe& algorithm) {
  learner::AlgorithmOptions options;
  options.clip_ratio_low = algorithm.clip_ratio_low.value_or(0);  // null: the loss has no such bound
  options.clip_ratio_high = algorithm.clip_ratio_high.value_or(0);
  options.clip_ratio_c = algorithm.clip_ratio_c.value_or(0);
  options.loss_agg_mode = algorithm.loss_agg_mode.value();
  options.off_policy_mask_threshold = algorithm.off_policy_mask_threshold;
  options.top_entropy_quantile = algorithm.top_entropy_quantile;
  options.clip_cov = {algorithm.clip_cov.ratio, algorithm.clip_cov.low, algorithm.clip_cov.high};
  options.kl_loss_coef = algorithm.kl_loss_coef;
  options.entropy_coef = algorithm.entropy_coef;
  options.has_teacher = !algorithm.teacher.path.empty();
  options.bound_moved_only = algorithm.bound_moved_only;
  return options;
}

learner::CorrectionOptions correction_options(const CorrectionRecipe& correction) {
  learner::CorrectionOptions options;
  options.threshold = correction.threshold.value_or(0);
  options.threshold_low = correction.threshold_low.value_or(0);
  options.rejection = {correction.rs, correction.rs_stat, correction.rs_threshold.value_or(0),
                       correction.rs_threshold_low.value_or(0), correction.token_veto_threshold.value_or(0)};
  options.batch_normalize = correction.batch_normalize;
  options.behaviour_in_ratio = correction.behaviour_in_ratio;
  return options;
}

}  // namespace

model::LoraConfig lora_config(const LoraRecipe& lora) {
  return {lora.rank, lora.alpha, lora.rslora, lora.target_modules, lora.train_norms};
}

LoraRecipe lora_recipe(const model::LoraConfig& lora) {
  LoraRecipe recipe;
  recipe.rank = lora.rank;
  recipe.alpha = lora.alpha;
  recipe.rslora = lora.rslora;
  recipe.target_modules = lora.target_modules;
  recipe.train_norms = lora.train_norms;
  return recipe;
}

model::SnapshotFormats sampler_formats(const Recipe& recipe) {
  model::SnapshotFormats formats = snapshot_formats(recipe.quant);
  if (recipe.lora.publish == config::LoraPublish::adapter) formats.lora = lora_config(recipe.lora);
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
  const bool replays = recipe.algorithm.router_replay == config::RouterReplay::rollout && !batch.sampler_routes.empty();
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
  return recipe.rollout.kv_pages.value_or(pages_of_longest(recipe, longest_prompt_tokens) * num_seqs);
}

double gpu_memory_share(const Recipe& recipe) {
  // vLLM's and veRL's defaults. A learner on the GPU allocates activations later, and needs more free memory.
  constexpr double kGpuShare = 0.9, kShareBesideLearner = 0.5;
  return recipe.rollout.gpu_memory_utilization.value_or(learns_on_gpu(recipe) ? kShareBesideLearner : kGpuShare);
}

learner::OptimizerOptions optimizer_options(const OptimRecipe& optim) {
  QRL_INVARIANT(optim.betas.size() == 2, "optim.betas", "two numbers", std::to_string(optim.betas.size()));
  learner::OptimizerOptions options;
  options.name = optim.name;
  options.lr = optim.lr;
  options.betas = {optim.betas[0], optim.betas[1]};
  options.eps = optim.eps;
  options.weight_decay = optim.weight_decay;
  options.lr_warmup_steps = optim.lr_warmup_steps;
  options.lr_warmup_ratio = optim.lr_warmup_ratio;
  options.lr_scheduler = optim.lr_scheduler;
  options.grad_clip = optim.grad_clip;
  options.muon = {optim.muon.momentum, optim.muon.nesterov, optim.muon.ns_steps, optim.muon.match_adamw_rms};
  return options;
}

learner::LearnerOptions learner_options(const Recipe& recipe) {
  learner::LearnerOptions options;
  options.num_threads = base::num_threads();
  options.device = learns_on_gpu(recipe) ? base::Device::cuda : base::Device::cpu;
  options.numerics.compute = recipe.model.dtype;
  options.numerics.forward = recipe.quant.learner_forward;
  options.numerics.backward = recipe.quant.learner_backward;
  options.numerics.bitwise = recipe.rollout.bitwise;
  options.numerics.kv_format = kv_format(recipe.quant);
  options.numerics.f32_lm_head = snapshot_formats(recipe.quant).f32_lm_head;
  options.numerics.own_lm_head = snapshot_formats(recipe.quant).int8_lm_head;
  options.activation_checkpointing = recipe.actor.activation_checkpointing;
  options.logprob_chunk_tokens = recipe.actor.logprob_chunk_tokens;
  options.shard_optimizer = recipe.trainer.zero_stage > 0;
  options.optim = optimizer_options(recipe.optim);
  options.lora = lora_config(recipe.lora);
  options.lora_seed = recipe.trainer.seed;
  options.total_updates = updates_per_step(recipe) * recipe.trainer.total_training_steps;
  return options;
}

learner::LossOptions loss_options(const Recipe& recipe) {
  learner::LossOptions options;
  options.loss = recipe.algorithm.name.get();
  options.method = recipe.rollout_correction.method.get();
  options.kl = recipe.algorithm.kl_loss_type.get();
  options.algorithm = algorithm_options(recipe.algorithm);
  options.correction = correction_options(recipe.rollout_correction);
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
