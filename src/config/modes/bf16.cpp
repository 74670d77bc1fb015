#include "config/choice.h"

namespace qrl::config {

extern const Choice bf16_mode;
const Choice bf16_mode{
    .word = "bf16",
    .what = "sampler and learner in bf16: the control",
    .defaults =
        {
            {"quant.rollout.weights", "bf16"},
            {"quant.rollout.kv_cache", "bf16", "quant.rollout.weights"},
            {"rollout_correction.method", "none"},
        },
};

}  // namespace qrl::config
