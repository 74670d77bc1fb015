// Owns the decoder's own forward pass as the learner asks for it: the values of a bitwise learner on the decoder's
// device. Knows no gradient.
#pragma once

#include "learner/layers.h"
#include "learner/logprob.h"
#include "model/config.h"
#include "model/device_weights.h"

namespace qrl::learner {

/// What a decoder computes of packed rows.
struct SampledPass {
  TensorList after_layer;  ///< the residual stream, fp32 [N, D] a layer on the device; nothing unless they are kept
  TargetScores scores;     ///< in host memory
};

/// By `decoder`, which has the snapshot's weights, on `device`: log-probs are the bits of its samples where it sums
/// each row alone. Not for targets that were sampled with top-k or top-p.
SampledPass sampled_pass(model::DeviceWeights& decoder, const model::ModelConfig& config, const PackedRows& rows,
                         const TargetRows& targets, const torch::Device& device, bool keeps_layers);

}  // namespace qrl::learner
