#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/block.h"
#include "model/config.h"

namespace qrl::model {

/// Describes where a weight is packed: in rows of one matrix, or in the matrices of a layer's experts.
template <class Packed>
struct MatrixPart {
  std::string weight;  ///< name of its WeightSpec
  Packed* matrix = nullptr;
  std::int64_t first_row = 0;
  std::span<Packed> experts = {};  ///< all matrices of a layer's experts, from `matrix` on; empty for other weights
};

/// Returns lm_head's part, then each layer's parts in order of matrix and row. `layers`: LayerSnapshots.
template <class Layers, class Packed>
std::vector<MatrixPart<Packed>> matrix_parts(const ModelConfig& config, Layers& layers, Packed& lm_head) {
  std::vector<MatrixPart<Packed>> parts;
  parts.push_back({config.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight", &lm_head, 0});
  for (std::size_t idx = 0; idx < layers.size(); ++idx) {
    const auto layer = static_cast<std::int64_t>(idx);
    const std::string prefix = layer_prefix(layer);
    visit_matrices(
        config, layer,
        [&](const BlockMatrix& matrix, const auto& of) {
          std::int64_t first_row = 0;
          for (const BlockModule& module : matrix.modules) {
            parts.push_back({prefix + std::string(module.name) + ".weight", &of(layers[idx]), first_row});
            first_row += module.rows;
          }
        },
        [&](const BlockExperts& experts, const auto& of) {
          const std::span<Packed> all = of(layers[idx]);
          parts.push_back({prefix + std::string(experts.tensor) + ".weight", all.data(), 0, all});
        });
  }
  return parts;
}

}  // namespace qrl::model
