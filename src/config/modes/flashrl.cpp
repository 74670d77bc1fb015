#include "config/choice.h"

namespace qrl::config {

extern const Choice flashrl_mode;
const Choice flashrl_mode{
    .word = "flashrl",
    .what = "FlashRL: low-bit rollouts, truncated importance sampling",
    .paper = "Liu, Yao et al. 2025, FlashRL",
    .defaults =
        {
            {"quant.rollout.weights", "int8"},
            {"quant.rollout.profile", "auto", "quant.rollout.weights"},
            {"quant.rollout.rotation", "none"},
            {"quant.rollout.kv_cache", "bf16"},
            {"algorithm.name", "grpo"},
            {"rollout_correction.method", "tis"},
            {"rollout_correction.threshold", "2", "rollout_correction.method"},  // ours: the text gives no C
        },
};

}  // namespace qrl::config
