#pragma once

#include <span>
#include <string>
#include <vector>

#include "learner/forward/delta_net.h"
#include "learner/forward/layers.h"
#include "model/adapter.h"
#include "model/block.h"
#include "ops/linear.h"

namespace qrl::learner {

struct LinearAdapter {
  struct Part {
    Weight b;                       ///< a module's B, [module's outputs, rank]
    std::int64_t first_output = 0;  ///< the module's first output in the matrix
  };
  Weight a;  ///< the modules' A, concatenated: [parts · rank, in]
  std::vector<Part> parts;
  double scale = 1;
  const model::MatrixAdapter* packed = nullptr;

  bool empty() const { return parts.empty(); }
  std::int64_t rank() const { return parts.front().b.value.size(1); }
};

struct Linear {
  Weight weight, bias;
  std::string name;  ///< name in a snapshot: "layers.0.qkv"
  /// The published snapshot's matrix: format and shape, and values if they are in host memory. Null: the forward pass
  /// reads `weight`.
  const ops::PackedLinear* quantized = nullptr;
  LinearAdapter adapter;
};

struct ExpertLinear {
  Weight weight;                                 ///< [M, out, in]
  std::string name;                              ///< name in a snapshot: "layers.0.experts.gate_up"
  std::span<const ops::PackedLinear> quantized;  ///< one per expert; empty: the forward pass reads `weight`

  std::int64_t count() const {
    return quantized.empty() ? weight.value.size(0) : static_cast<std::int64_t>(quantized.size());
  }
  Linear of(std::int64_t expert) const {
    const auto slice = [&](const Tensor& all) { return all.defined() ? all.select(0, expert) : Tensor(); };
    return {{slice(weight.value), slice(weight.gradient)},
            {},
            name,
            quantized.empty() ? nullptr : &quantized[static_cast<std::size_t>(expert)],
            {}};
  }
};

/// Returns a norm's gain, its weight plus `offset`, with the same gradient.
inline Weight gain_of(const Weight& weight, float offset) {
  return offset == 0 || !weight.defined() ? weight : Weight{weight.value + offset, weight.gradient};
}

/// A gain that the model lacks is undefined.
struct LayerWeights : model::Block<Weight, Linear, ExpertLinear> {
  std::int64_t sparse_idx = -1;  ///< number of sparse layers before this layer; −1: a dense layer
  model::RopeKind rope = model::RopeKind::common;
  std::int64_t window = 0;  ///< Heads::window of the layer
  float norm_offset = 0;    ///< ModelConfig::norm_offset
  model::LayerKind kind = model::LayerKind::attention;
  bool gated = false;  ///< ModelConfig::attention_gate
  bool is_sparse() const { return sparse_idx >= 0; }
  QkvWeights transform() const {
    return {qkv.bias, gain_of(q_norm_E, norm_offset), gain_of(k_norm_E, norm_offset), rope, window, gated};
  }
  DeltaWeights delta() const { return {taps_CT, a_log_H, dt_bias_H, delta_norm_V}; }
};

struct PolicyWeights {
  Weight embedding;
  std::vector<LayerWeights> layers;
  Weight final_norm;
  float norm_offset = 0;   ///< ModelConfig::norm_offset
  Weight lm_head;          ///< `embedding` if tied; undefined with adapters on the CPU, where logits read `head`
  ops::PackedLinear head;  ///< packed lm_head, in lm_head_dtype; empty unless ParameterOptions::packs_head
  torch::ScalarType lm_head_dtype = torch::kBFloat16;
};

}  // namespace qrl::learner
