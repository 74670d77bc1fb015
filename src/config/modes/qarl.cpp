#include "config/choice.h"

namespace qrl::config {

extern const Choice qarl_mode;
const Choice qarl_mode{
    .word = "qarl",
    .what = "QaRL: the learner's forward is the sampler's low-bit one; TBPO, Muon",
    .paper = "QaRL: Rollout-Aligned Quantization-Aware RL",
    .defaults =
        {
            {"quant.rollout.weights", "int4"},
            {"quant.rollout.activations", "bf16", "quant.rollout.weights"},
            {"quant.rollout.rotation", "none"},
            {"quant.rollout.kv_cache", "bf16"},
            {"quant.learner.forward", "low_bit"},
            {"algorithm.name", "tbpo"},
            {"rollout_correction.method", "tbpo"},
            {"optim.name", "muon"},
            {"optim.lr", "1e-6"},
            {"optim.weight_decay", "0.01"},
            {"data.train_batch_size", "512"},
            {"actor.mini_batch_size", "64", "data.train_batch_size"},
            {"rollout.n", "8"},
            {"rollout.temperature", "1"},
            {"rollout.top_p", "1"},
            {"eval.temperature", "0.6"},
            {"data.max_prompt_length", "2048"},
            {"data.max_response_length", "16384"},
            {"actor.max_tokens_per_micro_batch", "22528", "data.max_response_length"},
        },
};

}  // namespace qrl::config
