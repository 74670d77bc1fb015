#include "config/choice.h"

namespace qrl::config {

extern const Choice qurl_mode;
const Choice qurl_mode{
    .word = "qurl",
    .what = "QuRL: adaptive clipping range, update-aware quantization",
    .paper = "QuRL, ICLR 2026",
    .defaults =
        {
            {"quant.rollout.weights", "int8"},
            {"quant.rollout.rotation", "none"},
            {"quant.rollout.kv_cache", "bf16"},
            {"quant.uaq_scale", "1.5"},
            {"algorithm.name", "grpo"},
            {"algorithm.kl_loss_coef", "1e-3", "algorithm.name"},
            {"algorithm.kl_loss_type", "k3", "algorithm.name"},
            {"rollout_correction.method", "tis"},
            {"rollout_correction.threshold", "2", "rollout_correction.method"},  // ours
            {"rollout_correction.acr", "true", "rollout_correction.method"},
            {"data.train_batch_size", "64"},                           // ours
            {"actor.mini_batch_size", "16", "data.train_batch_size"},  // ours: with one update a step ACR has no effect
            {"optim.lr", "1e-6"},
        },
};

}  // namespace qrl::config
