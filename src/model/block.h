// Owns the parameters of a transformer block: the modules of each matrix, the norm that it reads, shapes and order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"

namespace qrl::model {

/// A module of the model, whose outputs are rows of one matrix.
struct BlockModule {
  std::string_view name;  ///< within a layer, in Hugging Face's spelling: "self_attn.q_proj"
  std::int64_t rows = 0;
};

/// The matrix of a linear layer: the stacked rows of its modules.
struct BlockMatrix {
  std::string_view name;  ///< within a snapshot's layer: "qkv"
  std::string_view norm;  ///< module of the norm whose output it reads; empty: none
  std::vector<BlockModule> modules;
  std::int64_t in = 0;
  bool has_bias = false;

  std::int64_t out() const {
    std::int64_t total = 0;
    for (const BlockModule& module : modules) total += module.rows;
    return total;
  }
};

struct BlockGain {
  std::string_view name;    ///< within a snapshot's layer: "q_norm"
  std::string_view module;  ///< within a layer, in Hugging Face's spelling: "self_attn.q_norm"
  std::int64_t width = 0;
};

/// One value per parameter of a transformer block. q and k have gains only in models with `qk_norm`.
template <class Gain, class Matrix>
struct Block {
  Gain input_norm_D{}, post_norm_D{}, q_norm_E{}, k_norm_E{};
  Matrix qkv{}, o{}, gate_up{}, down{};
};

/// Prefix of a module's name: "model.layers.3.".
inline std::string layer_prefix(std::int64_t layer) { return "model.layers." + std::to_string(layer) + "."; }
/// Prefix of a name in a snapshot's layer: "layers.3.".
inline std::string snapshot_layer_prefix(std::int64_t layer) { return "layers." + std::to_string(layer) + "."; }

/// Calls gain(BlockGain, of) and matrix(BlockMatrix, of) for each parameter of a layer, in the order of the forward
/// pass. of(block) returns the parameter's member of a Block, or of a struct with the same names. One visit can walk
/// several blocks together.
template <class OnGain, class OnMatrix>
void visit_block(const ModelConfig& config, const OnGain& gain, const OnMatrix& matrix) {
  const std::int64_t width = config.hidden_size, inner = config.intermediate_size;
  gain(
      BlockGain{"input_layernorm", "input_layernorm", width}, [](auto& layer) -> auto& { return layer.input_norm_D; });
  matrix(
      BlockMatrix{"qkv",
                  "input_layernorm",
                  {{"self_attn.q_proj", config.q_size()},
                   {"self_attn.k_proj", config.kv_size()},
                   {"self_attn.v_proj", config.kv_size()}},
                  width,
                  config.qkv_bias},
      [](auto& layer) -> auto& { return layer.qkv; });
  if (config.qk_norm) {
    gain(
        BlockGain{"q_norm", "self_attn.q_norm", config.head_dim}, [](auto& layer) -> auto& { return layer.q_norm_E; });
    gain(
        BlockGain{"k_norm", "self_attn.k_norm", config.head_dim}, [](auto& layer) -> auto& { return layer.k_norm_E; });
  }
  matrix(
      BlockMatrix{"o", {}, {{"self_attn.o_proj", width}}, config.q_size(), config.o_bias},
      [](auto& layer) -> auto& { return layer.o; });
  gain(
      BlockGain{"post_attention_layernorm", "post_attention_layernorm", width},
      [](auto& layer) -> auto& { return layer.post_norm_D; });
  matrix(
      BlockMatrix{
          "gate_up", "post_attention_layernorm", {{"mlp.gate_proj", inner}, {"mlp.up_proj", inner}}, width, false},
      [](auto& layer) -> auto& { return layer.gate_up; });
  matrix(
      BlockMatrix{"down", {}, {{"mlp.down_proj", width}}, inner, false},
      [](auto& layer) -> auto& { return layer.down; });
}

/// Same, for the matrices.
template <class OnMatrix>
void visit_matrices(const ModelConfig& config, const OnMatrix& matrix) {
  visit_block(
      config, [](const BlockGain&, const auto&) {}, matrix);
}

/// Returns the name of the norm's gain whose output a linear weight reads. For "model.layers.3.mlp.up_proj.weight" that
/// is "model.layers.3.post_attention_layernorm.weight". Empty for any other tensor.
std::string norm_before(const std::string& weight);

}  // namespace qrl::model
