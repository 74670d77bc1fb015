#include "config/choice.h"

namespace qrl::config {

extern const Choice qerl_mode;
const Choice qerl_mode{
    .word = "qerl",
    .what =
        "QeRL: adapters on a 4-bit base that sampler and learner share, noise on the sampler's norms; our INT4 in "
        "place of its NVFP4",
    .paper = "Huang et al. 2025, arXiv 2510.11696",
    .defaults =
        {
            {"quant.rollout.weights", "int4"},  // ours: the paper uses NVFP4
            {"quant.rollout.activations", "bf16", "quant.rollout.weights"},
            {"quant.rollout.rotation", "none"},
            {"quant.rollout.kv_cache", "bf16"},
            {"quant.learner.forward", "low_bit"},
            {"quant.rollout.noise.start", "1e-2"},
            {"quant.rollout.noise.end", "1e-4", "quant.rollout.noise.start"},
            {"quant.rollout.noise.stages", "10", "quant.rollout.noise.start"},
            {"lora.rank", "16"},
            {"lora.alpha", "16", "lora.rank"},
            {"lora.train_norms", "true", "lora.rank"},
            {"algorithm.name", "dapo"},
            {"algorithm.clip_ratio_low", "0.2", "algorithm.name"},
            {"algorithm.clip_ratio_high", "0.28", "algorithm.name"},
            {"algorithm.loss_agg_mode", "token-mean", "algorithm.name"},
            {"algorithm.kl_loss_coef", "0"},
            {"algorithm.mask_truncated", "true"},
            {"rollout_correction.method", "none"},
            {"rollout.n", "8"},  // ours: the scripts use what fits on their GPU
            {"data.max_prompt_length", "256"},
            {"data.max_response_length", "2048"},
            {"actor.max_tokens_per_micro_batch", "4096", "data.max_response_length"},  // ours
            {"optim.name", "adamw"},
            {"optim.lr", "1e-5"},
            {"optim.betas", "[0.9, 0.99]"},
            {"optim.weight_decay", "0.1"},
            {"optim.lr_scheduler", "cosine"},
            {"optim.lr_warmup_steps", "10"},  // the key's own default; the share is set only with this value
            {"optim.lr_warmup_ratio", "0.1", "optim.lr_warmup_steps"},
            {"optim.grad_clip", "0.2"},
        },
};

}  // namespace qrl::config
