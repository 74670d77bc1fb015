#include "config/choice.h"

namespace qrl::config {

extern const Choice ais_mode;
const Choice ais_mode{
    .word = "ais",
    .what = "AIS: FP8 rollouts, adaptively blended importance sampling",
    .paper = "Zhou et al. 2026, arXiv 2605.13907",
    .defaults =
        {
            {"quant.rollout.weights", "fp8_e4m3"},
            {"quant.rollout.granularity", "tensor", "quant.rollout.weights"},
            {"quant.rollout.rotation", "none"},
            {"quant.rollout.kv_cache", "bf16"},
            {"algorithm.name", "grpo"},
            {"algorithm.norm_adv_by_std", "false", "algorithm.name"},
            {"algorithm.clip_ratio_low", "0.2", "algorithm.name"},
            {"algorithm.clip_ratio_high", "0.2", "algorithm.name"},
            {"algorithm.loss_agg_mode", "seq-mean-token-mean", "algorithm.name"},
            {"algorithm.kl_loss_coef", "0"},  // ours: the paper gives no beta
            {"rollout_correction.method", "ais"},
            {"data.train_batch_size", "16"},  // ours: the effective batch of 96 to 128 counts samples, as in TRL
            {"actor.mini_batch_size", "16", "data.train_batch_size"},
            {"rollout.n", "8"},
            {"rollout.temperature", "0.9"},
            {"data.max_prompt_length", "256"},
            {"data.max_response_length", "512"},
            {"optim.name", "adamw"},
            {"optim.lr", "1e-6"},
            {"optim.betas", "[0.9, 0.99]"},
            {"optim.weight_decay", "0.1"},
            {"optim.lr_scheduler", "cosine"},
            {"optim.lr_warmup_steps", "10"},  // the key's own default; the share is set only with this value
            {"optim.lr_warmup_ratio", "0.05", "optim.lr_warmup_steps"},
            {"optim.grad_clip", "0.2"},
        },
};

}  // namespace qrl::config
