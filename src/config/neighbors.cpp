#include "config/neighbors.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "config/keys.h"

namespace qrl::config {

namespace {

constexpr std::string_view kOneDevice = "a model is held whole by each process; run more processes with mpirun";
constexpr std::string_view kSharded = "1 divides master weights and moments over processes; the model stays whole";
constexpr std::string_view kNoCritic = "there is no critic";
constexpr std::string_view kPacked = "samples are always packed without padding, up to that many tokens";
constexpr std::string_view kOwnDecoder = "the decoder is built in";
constexpr std::string_view kOwnReward = "rewards come from the built-in verifiers: reward.verifier";
constexpr std::string_view kNoSftFiles =
    "the cold start learns from generated demonstrations (sft.demonstrations.task); a model that was trained on your "
    "own "
    "goes to model.path";
constexpr std::string_view kStops = "a response ends at the end of text or of the turn, or at data.max_response_length";
constexpr std::string_view kFrozen = "the reference is the model as RL began, and stays it";
constexpr std::string_view kLogs = "metrics always go to metrics.jsonl and the console";

// Sources: veRL's ppo_trainer.yaml, TRL's GRPOConfig, OpenRLHF's train_ppo_ray arguments, and our own design's later
// keys.
constexpr Neighbor kNeighbors[] = {
    // Model
    {"model_name_or_path", "model.path", ""},
    {"pretrain", "model.path", ""},
    {"bf16", "model.dtype: bfloat16", ""},
    {"fp16", "model.dtype", "bfloat16 or float32"},
    {"torch_dtype", "model.dtype", ""},
    {"param_dtype", "model.dtype", ""},
    {"load_in_8bit", "quant.rollout.weights: int8", ""},
    {"master_dtype", "", "master weights are always float32"},
    {"trust_remote_code", "", "no code of a model folder is ever run"},
    {"attn_implementation", "", "there is one attention"},
    {"flash_attn", "", "there is one attention"},
    {"use_remove_padding", "actor.max_tokens_per_micro_batch", kPacked},
    {"packing_samples", "actor.max_tokens_per_micro_batch", kPacked},
    {"gradient_checkpointing", "actor.activation_checkpointing", ""},
    {"enable_gradient_checkpointing", "actor.activation_checkpointing", ""},
    {"lora_rank", "", "all weights are trained"},
    {"lora_r", "", "all weights are trained"},
    {"use_peft", "", "all weights are trained"},
    {"peft_config", "", "all weights are trained"},
    {"peft_config.*", "", "all weights are trained"},
    // Data
    {"dataset_name", "data.train_files", "local JSONL files"},
    {"prompt_data", "data.train_files", "local JSONL files"},
    {"eval_dataset", "data.val_files", "local JSONL files"},
    {"train_batch_size", "data.train_batch_size (prompts a step) or actor.mini_batch_size (prompts an update)",
     "OpenRLHF counts samples an update, veRL prompts a step"},
    {"rollout_batch_size", "data.train_batch_size", "prompts a step"},
    {"generation_batch_size", "data.train_batch_size", "prompts, not samples"},
    {"per_device_train_batch_size", "actor.mini_batch_size and actor.max_tokens_per_micro_batch",
     "prompts an update, and tokens at once"},
    {"gradient_accumulation_steps", "actor.mini_batch_size",
     "micro-batches follow from actor.max_tokens_per_micro_batch"},
    {"per_device_eval_batch_size", "rollout.max_num_seqs", "sequences decoded at once"},
    {"max_prompt_length", "data.max_prompt_length", "tokens"},
    {"prompt_max_len", "data.max_prompt_length", "tokens"},
    {"max_completion_length", "data.max_response_length", "tokens"},
    {"max_new_tokens", "data.max_response_length", "tokens"},
    {"max_tokens", "data.max_response_length", "tokens"},
    {"generate_max_len", "data.max_response_length", "tokens"},
    {"max_model_len", "data.max_prompt_length and data.max_response_length", "their sum is the longest sequence"},
    {"max_len", "data.max_prompt_length and data.max_response_length", "their sum is the longest sequence"},
    {"truncation", "data.overlong_prompt", "error, filter or truncate"},
    {"filter_overlong_prompts", "data.overlong_prompt: filter", ""},
    {"input_template", "data.prompt_template", ""},
    {"apply_chat_template", "data.chat_template", ""},
    {"apply_chat_template_kwargs", "data.enable_thinking", ""},
    {"shuffle_dataset", "data.shuffle", ""},
    {"input_key", "data.prompt_key", ""},
    {"prompt_key", "data.prompt_key", ""},
    {"label_key", "data.ground_truth_key", ""},
    {"reward_fn_key", "data.data_source_key", ""},
    {"prompt_data_probs", "data.train_weights", "one a file"},
    {"sft.train_files", "", kNoSftFiles},
    {"sft.files", "", kNoSftFiles},
    {"sft.demonstrations.files", "", kNoSftFiles},
    {"sft.epochs", "sft.steps", "updates; sft.batch_size demonstrations each"},
    {"sft.num_train_epochs", "sft.steps", "updates; sft.batch_size demonstrations each"},
    {"sft.demonstrations.size", "", "sft.steps × sft.batch_size demonstrations are made"},
    // Rollout
    {"stop", "", kStops},
    {"stop_strings", "", kStops},
    {"stop_token_ids", "", kStops},
    {"rollout.name", "", kOwnDecoder},
    {"actor_rollout_ref.rollout.name", "", kOwnDecoder},
    {"actor_rollout_ref.rollout.dtype", "quant.rollout.weights", "fp32, bf16, int8, fp8_e4m3 or int4"},
    {"steps_per_generation", "actor.mini_batch_size", "prompts an update; a step has data.train_batch_size"},
    {"num_generations", "rollout.n", "samples a prompt"},
    {"n_samples_per_prompt", "rollout.n", "samples a prompt"},
    {"group_size", "rollout.n", "samples a prompt"},
    {"temperature", "rollout.temperature", "eval.temperature for evaluation"},
    {"top_p", "rollout.top_p", "eval.top_p for evaluation"},
    {"top_k", "rollout.top_k", "eval.top_k for evaluation; -1 keeps all tokens"},
    {"min_p", "", "sampling knows temperature, top_p and top_k"},
    {"repetition_penalty", "", "sampling knows temperature, top_p and top_k"},
    {"max_num_batched_tokens", "rollout.max_num_batched_tokens", ""},
    {"block_size", "rollout.page_size", "tokens"},
    {"gpu_memory_utilization", "rollout.gpu_memory_utilization",
     "or rollout.kv_pages, pages of rollout.page_size tokens"},
    {"vllm_gpu_memory_utilization", "rollout.gpu_memory_utilization",
     "or rollout.kv_pages, pages of rollout.page_size tokens"},
    {"kv_memory_fraction", "rollout.kv_pages", "pages of rollout.page_size tokens"},
    {"enable_prefix_caching", "rollout.prefix_sharing", ""},
    {"tensor_model_parallel_size", "", kOneDevice},
    {"vllm_tensor_parallel_size", "", kOneDevice},
    {"pipeline_model_parallel_size", "", kOneDevice},
    {"ulysses_sequence_parallel_size", "", kOneDevice},
    {"vllm_num_engines", "", kOneDevice},
    {"n_gpus_per_node", "", kOneDevice},
    {"nnodes", "", kOneDevice},
    {"use_vllm", "", kOwnDecoder},
    {"vllm_mode", "", kOwnDecoder},
    {"enforce_eager", "rollout.enforce_eager", ""},
    {"free_cache_engine", "rollout.free_cache_engine", ""},
    {"load_format", "", kOwnDecoder},
    {"colocate_all_models", "", "the decoder and the learner share each process"},
    // Quantization
    {"quantization", "quant.rollout.weights", "fp32, bf16, int8, fp8_e4m3 or int4"},
    {"kv_cache_dtype", "quant.rollout.kv_cache", "auto, fp32, bf16, int8 or fp8_e4m3"},
    {"profile", "quant.rollout.profile", ""},
    // Algorithm
    {"adv_estimator", "algorithm.name", ""},
    {"advantage_estimator", "algorithm.name", ""},
    {"loss_type", "algorithm.name", ""},
    {"loss_agg_mode", "algorithm.loss_agg_mode", ""},
    {"beta", "algorithm.kl_loss_coef", ""},
    {"kl_coef", "algorithm.kl_loss_coef", ""},
    {"init_kl_coef", "algorithm.kl_loss_coef", ""},
    {"use_kl_loss", "algorithm.kl_loss_coef", "0 is without"},
    {"use_kl_in_reward", "algorithm.kl_loss_coef", "the KL is part of the loss"},
    {"kl_loss_type", "algorithm.kl_loss_type", "k1, k2 or k3; low_var_kl is k3"},
    {"sync_ref_model", "", kFrozen},
    {"ref_model_sync_steps", "", kFrozen},
    {"kl_estimator", "algorithm.kl_loss_type", "k1, k2 or k3"},
    {"epsilon", "algorithm.clip_ratio_low", "algorithm.clip_ratio_high for the other side"},
    {"epsilon_high", "algorithm.clip_ratio_high", ""},
    {"cliprange", "algorithm.clip_ratio_low", "algorithm.clip_ratio_high for the other side"},
    {"clip_ratio", "algorithm.clip_ratio_low", "algorithm.clip_ratio_high for the other side"},
    {"eps_clip", "algorithm.clip_ratio_low", "algorithm.clip_ratio_high for the other side"},
    {"eps_clip_low_high", "algorithm.clip_ratio_low and algorithm.clip_ratio_high", ""},
    {"clip_ratio_c", "algorithm.clip_ratio_c", ""},
    {"delta", "algorithm.clip_ratio_c", "TRL's bound on the ratio, for negative advantages alone"},
    {"scale_rewards", "algorithm.norm_adv_by_std", ""},
    {"norm_adv_by_std_in_grpo", "algorithm.norm_adv_by_std", ""},
    {"no_advantage_std_norm", "algorithm.norm_adv_by_std: false", ""},
    {"entropy_coeff", "algorithm.entropy_coef", ""},
    {"entropy_loss_coef", "algorithm.entropy_coef", ""},
    {"lam", "", kNoCritic},
    {"lambd", "", kNoCritic},
    {"critic.*", "", kNoCritic},
    {"critic_warmup", "", kNoCritic},
    {"critic_pretrain", "", kNoCritic},
    {"critic_learning_rate", "", kNoCritic},
    {"mask_truncated_completions", "algorithm.mask_truncated", ""},
    {"filter_groups", "algorithm.filter_groups.enable", ""},
    {"dynamic_filtering", "algorithm.filter_groups.enable", ""},
    {"overlong_buffer", "reward.overlong_buffer.enable", ""},
    {"overlong_buffer_len", "reward.overlong_buffer.len", "tokens; with reward.overlong_buffer.enable"},
    {"tis_imp_ratio_cap", "rollout_correction.threshold", ""},
    {"rollout_is", "rollout_correction.method", ""},
    {"rollout_is_threshold", "rollout_correction.threshold", ""},
    {"vllm_importance_sampling_correction", "rollout_correction.method", ""},
    {"vllm_importance_sampling_cap", "rollout_correction.threshold", ""},
    {"enable_vllm_is_correction", "rollout_correction.method", ""},
    {"vllm_is_truncated_threshold", "rollout_correction.threshold", ""},
    // Reward
    {"reward_funcs", "reward.verifier", ""},
    {"reward_manager", "reward.verifier", ""},
    {"reward_weights", "reward.correct, reward.wrong and reward.format", ""},
    {"format_score", "reward.format", ""},
    {"custom_reward_function.*", "", kOwnReward},
    {"reward.fn", "", kOwnReward},
    {"reward.function", "", kOwnReward},
    {"reward_fn", "", kOwnReward},
    {"reward_model.*", "", "rewards come from a verifier, not from a model: reward.verifier"},
    {"reward_pretrain", "reward.verifier", "rewards come from a verifier, not from a model"},
    {"remote_rm_url", "reward.verifier", "rewards come from a verifier, not from a service"},
    // Actor and optimizer
    {"ppo_mini_batch_size", "actor.mini_batch_size", "prompts"},
    {"ppo_micro_batch_size", "actor.max_tokens_per_micro_batch", "tokens, not samples"},
    {"ppo_micro_batch_size_per_gpu", "actor.max_tokens_per_micro_batch", "tokens, not samples"},
    {"log_prob_micro_batch_size_per_gpu", "actor.max_tokens_per_micro_batch", "tokens, not samples"},
    {"micro_train_batch_size", "actor.max_tokens_per_micro_batch", "tokens, not samples"},
    {"micro_rollout_batch_size", "actor.max_tokens_per_micro_batch", "tokens, not samples"},
    {"ppo_max_token_len_per_gpu", "actor.max_tokens_per_micro_batch", ""},
    {"use_dynamic_bsz", "actor.max_tokens_per_micro_batch", kPacked},
    {"num_iterations", "actor.ppo_epochs", ""},
    {"max_epochs", "actor.ppo_epochs", ""},
    {"learning_rate", "optim.lr", ""},
    {"min_lr", "", "linear and cosine schedules end at 0 (optim.lr_scheduler)"},
    {"min_lr_ratio", "", "linear and cosine schedules end at 0 (optim.lr_scheduler)"},
    {"actor_learning_rate", "optim.lr", ""},
    {"warmup_steps", "optim.lr_warmup_steps", "optimizer updates"},
    {"warmup_ratio", "optim.lr_warmup_steps", "optimizer updates, not a share"},
    {"lr_warmup_ratio", "optim.lr_warmup_steps", "optimizer updates, not a share"},
    {"lr_warmup_steps_ratio", "optim.lr_warmup_steps", "optimizer updates, not a share"},
    {"lr_scheduler_type", "optim.lr_scheduler", "constant, linear or cosine"},
    {"warmup_style", "optim.lr_scheduler", "constant, linear or cosine"},
    {"max_grad_norm", "optim.grad_clip", ""},
    {"max_norm", "optim.grad_clip", ""},
    {"adam_beta1", "optim.betas", "a list of both"},
    {"adam_beta2", "optim.betas", "a list of both"},
    {"adam_betas", "optim.betas", ""},
    {"adam_epsilon", "optim.eps", ""},
    {"l2", "optim.weight_decay", ""},
    {"zero_stage", "trainer.zero_stage", "0 or 1"},
    {"use_distributed_optimizer", "trainer.zero_stage: 1", ""},
    {"fsdp_config", "trainer.zero_stage", kSharded},
    {"deepspeed", "trainer.zero_stage", kSharded},
    {"param_offload", "", kOneDevice},
    {"optimizer_offload", "", kOneDevice},
    // Evaluation and trainer
    {"eval_steps", "eval.freq", "steps"},
    {"test_freq", "eval.freq", "steps"},
    {"eval_strategy", "eval.freq", "0 is never"},
    {"val_before_train", "eval.before_train", ""},
    {"eval_n_samples_per_prompt", "eval.n", ""},
    {"eval_temperature", "eval.temperature", ""},
    {"max_steps", "trainer.total_training_steps", "rollout steps"},
    {"num_train_epochs", "trainer.total_training_steps", "steps; an epoch is prompts / data.train_batch_size of them"},
    {"total_epochs", "trainer.total_training_steps", "steps; an epoch is prompts / data.train_batch_size of them"},
    {"num_episodes", "trainer.total_training_steps", "steps; an epoch is prompts / data.train_batch_size of them"},
    {"save_steps", "trainer.save_freq", "steps"},
    {"save_strategy", "trainer.save_freq", "0 is only at the end"},
    {"save_total_limit", "trainer.max_ckpt_to_keep", ""},
    {"max_ckpt_num", "trainer.max_ckpt_to_keep", ""},
    {"max_actor_ckpt_to_keep", "trainer.max_ckpt_to_keep", ""},
    {"output_dir", "trainer.default_local_dir", ""},
    {"save_path", "trainer.default_local_dir", ""},
    {"ckpt_path", "trainer.default_local_dir", ""},
    {"resume_from_checkpoint", "trainer.resume_mode", "auto, never or a path"},
    {"resume_from_path", "trainer.resume_mode", "auto, never or a path"},
    {"load_checkpoint", "trainer.resume_mode", "auto, never or a path"},
    {"rollout_data_dir", "trainer.rollout_dump", "they go to the run folder"},
    {"log_completions", "trainer.rollout_dump", ""},
    {"seed", "trainer.seed", ""},
    {"num_threads", "trainer.threads", ""},
    {"use_cpu", "trainer.device: cpu", ""},
    {"ddp_timeout", "trainer.collective_timeout_s", "seconds"},
    {"push_to_hub", "", "qrl-train export writes a Hugging Face folder"},
    {"logger", "", kLogs},
    {"report_to", "", kLogs},
    {"use_wandb", "", kLogs},
    {"use_tensorboard", "", kLogs},
    {"logging_steps", "", kLogs},
    {"project_name", "trainer.default_local_dir", "the run folder"},
    {"experiment_name", "trainer.default_local_dir", "the run folder"},
    {"run_name", "trainer.default_local_dir", "the run folder"},
};

std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }

/// Without leading dashes, lower-case, '-' as '_': OpenRLHF's "--actor-learning-rate" reads as a key.
std::string normalized(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  std::string out(name);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c == '-' ? '_' : c;
  });
  return out;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " or ") + name;
  return text;
}

std::string advice_of(const Neighbor& known) {
  const std::string note(known.note);
  if (known.ours.empty()) return "it has no counterpart here: " + note;
  return "here it is " + std::string(known.ours) + (note.empty() ? "" : " (" + note + ")");
}

}  // namespace

std::vector<Neighbor> neighbors(const Catalog& catalog) {
  std::vector<Neighbor> all(std::begin(kNeighbors), std::end(kNeighbors));
  for (const Choices* choices : {&catalog.losses, &catalog.corrections, &catalog.modes}) {
    for (const Choice* one : choices->all) all.insert(all.end(), one->neighbors.begin(), one->neighbors.end());
  }
  return all;
}

std::string advice_for_unknown_key(const Keys& keys, std::string_view name) {
  constexpr std::size_t kLongestName = 200;
  if (name.empty() || name.size() > kLongestName) return {};
  const std::string plain = normalized(name);
  const std::string last(last_part(plain));
  const std::vector<Neighbor> known_names = neighbors(keys.catalog());

  // A whole name, or a section that has no counterpart, says more than a part of it.
  const auto is_whole = [&](const Neighbor& neighbor) {
    const std::string_view called = neighbor.name;
    if (called.ends_with(".*")) return plain.starts_with(called.substr(0, called.size() - 1));
    return called == plain && plain != last;
  };
  if (const auto whole = std::find_if(known_names.begin(), known_names.end(), is_whole); whole != known_names.end()) {
    return advice_of(*whole);
  }
  // actor_rollout_ref.rollout.n holds rollout.n whole.
  for (std::size_t dot = plain.find('.'); dot != std::string::npos; dot = plain.find('.', dot + 1)) {
    const std::string tail = plain.substr(dot + 1);
    if (tail.find('.') != std::string::npos && keys.find(tail) != nullptr) return "here it is " + tail;
  }
  // The right name under a misspelt section beats what the others call by that name.
  const std::string nearest = base::nearest_name(plain, keys.names());
  if (plain != last && !nearest.empty() && last_part(nearest) == last) return "did you mean " + nearest + "?";
  const auto known = std::find_if(known_names.begin(), known_names.end(), [&](const Neighbor& neighbor) {
    return neighbor.name == last || neighbor.name == plain;
  });
  if (known != known_names.end()) return advice_of(*known);
  std::vector<std::string> same, last_parts;
  for (const std::string& key : keys.names()) {
    last_parts.emplace_back(last_part(key));
    if (last_parts.back() == last) same.push_back(key);
  }
  if (!same.empty() && same.size() <= 3) return "did you mean " + joined(same) + "?";
  if (!nearest.empty()) return "did you mean " + nearest + "?";
  const std::string nearest_last = base::nearest_name(last, last_parts);
  const auto found = std::find(last_parts.begin(), last_parts.end(), nearest_last);
  if (nearest_last.empty() || found == last_parts.end()) return "--help lists all keys";
  return "did you mean " + keys.names()[static_cast<std::size_t>(found - last_parts.begin())] + "?";
}

}  // namespace qrl::config
