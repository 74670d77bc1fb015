#include "config/choice.h"

namespace qrl::config {

extern const Choice fp8rl_mode;
const Choice fp8rl_mode{
    .word = "fp8rl",
    .what = "FP8-RL: FP8 weights in blocks, FP8 KV cache calibrated after every update",
    .paper = "FP8-RL: A Practical and Stable Low-Precision Stack",
    .defaults =
        {
            {"quant.rollout.weights", "fp8_e4m3"},
            {"quant.rollout.granularity", "block128", "quant.rollout.weights"},
            {"quant.rollout.rotation", "none"},
            {"quant.rollout.kv_cache", "fp8_e4m3", "quant.rollout.weights"},
            {"algorithm.name", "dapo"},
            {"rollout_correction.method", "tis"},
            {"rollout_correction.threshold", "2", "rollout_correction.method"},
            {"data.train_batch_size", "32"},
            {"actor.mini_batch_size", "32", "data.train_batch_size"},
            {"rollout.n", "16"},
            {"data.max_response_length", "20480"},
            {"data.max_prompt_length", "2048", "data.max_response_length"},             // ours
            {"actor.max_tokens_per_micro_batch", "22528", "data.max_response_length"},  // ours
        },
};

}  // namespace qrl::config
