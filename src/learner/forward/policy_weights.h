#pragma once

#include <span>
#include <string>
#include <vector>

#include "learner/forward/layers.h"
#include "model/adapter.h"
#include "model/block.h"
#include "ops/linear.h"

namespace qrl::learner {

/// A linear layer's trained adapter, or empty.
struct LinearAdapter {
  struct Part {
    Weight b;                       ///< [out of the module, rank]
    std::int64_t first_output = 0;  ///< first output of the module within the matrix
  };
  Weight a;  ///< the modules' A, concatenated: [parts · rank, in]
  std::vector<Part> parts;
  double scale = 1;
  const model::MatrixAdapter* packed = nullptr;  ///< the packed form (Linear::quantized)

  bool empty() const { return parts.empty(); }
  std::int64_t rank() const { return parts.front().b.value.size(1); }
};

struct Linear {
  Weight weight, bias;
  std::string name;  ///< the name in a snapshot: "layers.0.qkv"
  /// The matrix in the published snapshot: format, shape, and values if in host memory. Null: the forward pass reads
  /// `weight`.
  const ops::PackedLinear* quantized = nullptr;
  LinearAdapter adapter;
};

/// Matrices of a sparse layer's experts.
struct ExpertLinear {
  Weight weight;                                 ///< [M, out, in]
  std::string name;                              ///< name in a snapshot: "layers.0.experts.gate_up"
  std::span<const ops::PackedLinear> quantized;  ///< one per expert, like Linear::quantized; empty: none

  std::int64_t count() const {
    return quantized.empty() ? weight.value.size(0) : static_cast<std::int64_t>(quantized.size());
  }
  /// Returns an expert's matrix, which refers to these tensors.
  Linear of(std::int64_t expert) const {
    const auto slice = [&](const Tensor& all) { return all.defined() ? all.select(0, expert) : Tensor(); };
    return {{slice(weight.value), slice(weight.gradient)},
            {},
            name,
            quantized.empty() ? nullptr : &quantized[static_cast<std::size_t>(expert)],
            {}};
  }
};

/// One block's weights; a gain that the model lacks is undefined.
struct LayerWeights : model::Block<Weight, Linear, ExpertLinear> {
  std::int64_t sparse_idx = -1;  ///< number of sparse layers before it; −1: a dense layer
  bool is_sparse() const { return sparse_idx >= 0; }
  QkvWeights transform() const { return {qkv.bias, q_norm_E, k_norm_E}; }
};

struct PolicyWeights {
  Weight embedding;
  std::vector<LayerWeights> layers;
  Weight final_norm;
  Weight lm_head;          ///< the embedding if tied; undefined with adapters, which use `head`
  ops::PackedLinear head;  ///< lm_head packed, in lm_head_dtype; empty unless requested
  torch::ScalarType lm_head_dtype = torch::kBFloat16;
};

}  // namespace qrl::learner
