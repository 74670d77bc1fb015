// Owns what a forward pass reads: a policy's weights, block by block, and what a matmul of a layer is made of. Knows
// neither where they lie nor who multiplies.
#pragma once

#include <string>
#include <vector>

#include "learner/layers.h"
#include "model/block.h"
#include "ops/linear.h"

namespace qrl::learner {

/// A linear layer. Every matmul of a layer takes one.
struct Linear {
  Weight weight, bias;  ///< bias: undefined in models without
  std::string name;     ///< a snapshot's: "layers.0.qkv"
  /// The published snapshot's form of it, for its format and shape, and for its values where the snapshot holds them
  /// in host memory. Null: the forward pass reads `weight` alone.
  const ops::PackedLinear* quantized = nullptr;
};

/// One transformer block's weights. Gains that the model lacks are undefined.
struct LayerWeights : model::Block<Weight, Linear> {
  QkvWeights transform() const { return {qkv.bias, q_norm_E, k_norm_E}; }
};

struct PolicyWeights {
  Weight embedding;
  std::vector<LayerWeights> layers;
  Weight final_norm;
  Weight lm_head;          ///< the embedding itself when tied
  ops::PackedLinear head;  ///< lm_head as the kernels read it, in lm_head_dtype; empty unless asked for
  torch::ScalarType lm_head_dtype = torch::kBFloat16;  ///< of lm_head and of the hidden states it meets
};

}  // namespace qrl::learner
