#include "train/plan/learner_options.h"

#include "base/error.h"
#include "base/threads.h"
#include "config/keys/key.h"
#include "train/plan/formats.h"
#include "train/plan/options.h"

namespace qrl::train {

learner::OptimizerOptions optimizer_options(const config::OptimRecipe& optim) {
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

learner::LearnerOptions learner_options(const config::Recipe& recipe) {
  learner::LearnerOptions options;
  options.num_threads = base::num_threads();
  options.device = config::learns_on_gpu(recipe) ? base::Device::cuda : base::Device::cpu;
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

namespace {

learner::AlgorithmOptions algorithm_options(const config::AlgorithmRecipe& algorithm) {
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
  return options;
}

learner::CorrectionOptions correction_options(const config::CorrectionRecipe& correction) {
  learner::CorrectionOptions options;
  options.threshold = correction.threshold.value_or(0);  // null: the method has no such bound
  options.threshold_low = correction.threshold_low.value_or(0);
  options.rejection = {correction.rs, correction.rs_stat, correction.rs_threshold.value_or(0),
                       correction.rs_threshold_low.value_or(0), correction.token_veto_threshold.value_or(0)};
  options.batch_normalize = correction.batch_normalize;
  options.behaviour_in_ratio = correction.behaviour_in_ratio;
  return options;
}

}  // namespace

learner::LossOptions loss_options(const config::Recipe& recipe) {
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

}  // namespace qrl::train
