// Owns the decoder's own forward pass for a bitwise learner on the decoder's device. Knows no gradient.
#pragma once

#include "learner/layers.h"
#include "learner/logprob.h"
#include "model/config.h"
#include "model/device_weights.h"

namespace qrl::learner {

/// Holds the decoder's results for packed rows.
struct SampledPass {
  TensorList after_layer;  ///< the residual stream, fp32 [N, D] a layer on the device; nothing unless they are kept
  TargetScores scores;     ///< in host memory
};

/// Runs `decoder`, which has the snapshot's weights, on `device`. Log-probs are the bits of its samples if it sums each
/// row alone. Targets must not be sampled with top-k or top-p.
SampledPass sampled_pass(model::DeviceWeights& decoder, const model::ModelConfig& config, const PackedRows& rows,
                         const TargetRows& targets, const torch::Device& device, bool keeps_layers);

}  // namespace qrl::learner
