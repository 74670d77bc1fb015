// Owns what a forward pass reads: a policy's weights, block by block, and what a matmul of a layer is made of. Knows
// neither where they lie nor who multiplies.
#pragma once

#include <string>
#include <vector>

#include "learner/layers.h"
#include "model/adapter.h"
#include "model/block.h"
#include "ops/linear.h"

namespace qrl::learner {

/// Holds the trained low-rank adapter of a linear layer (model/adapter.h). Empty: the layer has none.
struct LinearAdapter {
  /// Describes one module of the matrix.
  struct Part {
    Weight b;                       ///< [out of the module, rank]
    std::int64_t first_output = 0;  ///< in the matrix's output
  };
  Weight a;  ///< those of its parts, concatenated: [parts · rank, in]
  std::vector<Part> parts;
  double scale = 1;
  const model::MatrixAdapter* packed = nullptr;  ///< as Linear::quantized

  bool empty() const { return parts.empty(); }
  std::int64_t rank() const { return parts.front().b.value.size(1); }
};

/// Holds a linear layer. Every matmul of a layer takes one.
struct Linear {
  Weight weight, bias;  ///< bias: undefined in models without; weight: where nothing reads it
  std::string name;     ///< a snapshot's: "layers.0.qkv"
  /// Points to its form in the published snapshot, for format and shape, and for the values if the snapshot holds them
  /// in host memory. Null: the forward pass reads `weight` alone.
  const ops::PackedLinear* quantized = nullptr;
  LinearAdapter adapter;
};

/// Holds one transformer block's weights. Gains that the model lacks are undefined.
struct LayerWeights : model::Block<Weight, Linear> {
  QkvWeights transform() const { return {qkv.bias, q_norm_E, k_norm_E}; }
};

struct PolicyWeights {
  Weight embedding;
  std::vector<LayerWeights> layers;
  Weight final_norm;
  Weight lm_head;          ///< the embedding itself when tied; undefined beside adapters, where `head` is all
  ops::PackedLinear head;  ///< lm_head as the kernels read it, in lm_head_dtype; empty unless requested
  torch::ScalarType lm_head_dtype = torch::kBFloat16;  ///< of lm_head and of the hidden states that it multiplies
};

}  // namespace qrl::learner
