#pragma once

#include "learner/forward/layers.h"
#include "learner/forward/logprob.h"
#include "model/config.h"
#include "model/device_weights.h"

namespace qrl::learner {

struct SampledPass {
  TensorList after_layer;  ///< residual stream after each layer, fp32 [N, D] on the device; empty unless kept
  TargetScores scores;     ///< in host memory
};

/// Runs the forward pass of rollout.bitwise: the decoder's own, on `device` with the snapshot's weights. Log-probs are
/// bit-identical to its samples' if the decoder sums each row alone. Targets must not be sampled with top-k or top-p.
SampledPass sampled_pass(model::DeviceWeights& decoder, const model::ModelConfig& config, const PackedRows& rows,
                         const TargetRows& targets, const torch::Device& device, bool keeps_layers);

}  // namespace qrl::learner
