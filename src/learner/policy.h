// Owns the differentiable forward pass of the supported families. Knows no loss.
#pragma once

#include "learner/parameters.h"

namespace qrl::learner {

/// How a forward pass runs, apart from its weights.
struct ForwardOptions {
  torch::ScalarType compute = torch::kBFloat16;  ///< of matrix products' operands: bf16 or f32
  bool activation_checkpointing = false;         ///< keep only what enters each layer
};

/// The last layer's output after the final norm, [N, D] in the compute dtype: what lm_head reads. The residual stream,
/// norms and softmax are fp32, as in the decoder. `rows` and what `weights` point to must outlive the backward pass.
Tensor hidden_states(const PolicyWeights& weights, const model::ModelConfig& config, const PackedRows& rows,
                     const ForwardOptions& options);

}  // namespace qrl::learner
