#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "model/config.h"

namespace qrl::model {

/// Describes a module, whose weight is some rows of a fused matrix.
struct BlockModule {
  std::string_view name;  ///< Hugging Face name within a layer: "self_attn.q_proj"
  std::int64_t rows = 0;
};

/// Describes a linear layer's matrix: the stacked weights of its modules.
struct BlockMatrix {
  std::string_view name;  ///< name in a snapshot's layer: "qkv"
  std::string_view norm;  ///< name of the norm whose output the matrix reads; may be empty
  std::vector<BlockModule> modules;
  std::int64_t in = 0;
  bool has_bias = false;
  WeightKind kind = WeightKind::linear;  ///< linear, router (the outputs are the experts' logits), or wide_linear

  bool is_router() const { return kind == WeightKind::router; }
  /// Returns whether the matrix is never quantized.
  bool is_wide() const { return kind != WeightKind::linear; }

  std::int64_t out() const {
    std::int64_t total = 0;
    for (const BlockModule& module : modules) total += module.rows;
    return total;
  }
};

/// Describes one matrix per expert, all of equal shape.
struct BlockExperts {
  BlockMatrix matrix;       ///< one expert's matrix; module names lack the expert's prefix (expert_module)
  std::int64_t count = 0;   ///< number of experts, M
  std::string_view tensor;  ///< name of all experts' stacked tensor: "mlp.experts.gate_up_proj"
};

/// Describes a small parameter, which is never quantized: a norm's gains, or one of DeltaNet.
struct BlockGain {
  std::string_view name;    ///< name in a snapshot's layer: "q_norm"
  std::string_view module;  ///< Hugging Face name within a layer: "self_attn.q_norm"
  std::int64_t width = 0;
  WeightKind kind = WeightKind::norm;
  std::int64_t taps = 0;  ///< of a convolution's channel; 0: one value each

  /// Returns the tensor's name within a layer: "self_attn.q_norm.weight", or "linear_attn.A_log".
  std::string tensor() const {
    const bool is_plain = kind == WeightKind::a_log || kind == WeightKind::dt_bias;
    return std::string(module) + (is_plain ? "" : ".weight");
  }
  base::Shape shape() const { return taps > 0 ? base::Shape{width, 1, taps} : base::Shape{width}; }
};

/// Holds one value per parameter of a layer. A gain that the model lacks stays empty: input_norm_D and post_norm_D
/// (before attention and MLP), attention_norm_D and mlp_norm_D (on their outputs), q_norm_E and k_norm_E. A sparse
/// layer has a router and experts instead of gate_up and down. A DeltaNet layer has qkvz and ba instead of qkv, and the
/// four gains of ops::DeltaWeights: taps_CT to delta_norm_V.
template <class Gain, class Matrix, class Experts = std::vector<Matrix>>
struct Block {
  Gain input_norm_D{}, post_norm_D{}, attention_norm_D{}, mlp_norm_D{}, q_norm_E{}, k_norm_E{};
  Gain taps_CT{}, a_log_H{}, dt_bias_H{}, delta_norm_V{};
  Matrix qkv{}, qkvz{}, ba{}, o{}, gate_up{}, down{}, router{};
  Experts expert_gate_up{}, expert_down{};
};

inline std::string layer_prefix(std::int64_t layer) { return "model.layers." + std::to_string(layer) + "."; }
inline std::string snapshot_layer_prefix(std::int64_t layer) { return "layers." + std::to_string(layer) + "."; }

/// Returns the name of an expert's module: "model.layers.3.mlp.experts.7.up_proj".
inline std::string expert_module(const std::string& prefix, std::int64_t expert, const BlockModule& module) {
  return prefix + "mlp.experts." + std::to_string(expert) + "." + std::string(module.name);
}

/// Returns the names of the norms before attention and before the MLP; empty if the model has none there.
inline std::string_view norm_before_attention(const ModelConfig& config) {
  return config.norms == NormPlace::after ? "" : "input_layernorm";
}
inline std::string_view norm_before_mlp(const ModelConfig& config) {
  constexpr std::string_view kNames[] = {"post_attention_layernorm", "", "pre_feedforward_layernorm"};
  return kNames[static_cast<std::size_t>(config.norms)];
}

/// Returns whether a norm precedes some linear weight, so that a factor can move between both.
inline bool has_norms_before(const ModelConfig& config) { return !norm_before_attention(config).empty(); }

inline BlockMatrix qkv_matrix(const ModelConfig& config) {
  const std::int64_t q = config.q_outputs(), kv = config.kv_size();
  std::vector<BlockModule> modules = {{"self_attn.q_proj", q}, {"self_attn.k_proj", kv}, {"self_attn.v_proj", kv}};
  if (config.fused_projections) modules = {{"self_attn.qkv_proj", q + 2 * kv}};
  return {"qkv", norm_before_attention(config), modules, config.hidden_size, config.qkv_bias};
}
inline BlockMatrix gate_up_matrix(const ModelConfig& config) {
  const std::int64_t inner = config.intermediate_size;
  std::vector<BlockModule> modules = {{"mlp.gate_proj", inner}, {"mlp.up_proj", inner}};
  if (config.fused_projections) modules = {{"mlp.gate_up_proj", 2 * inner}};
  return {"gate_up", norm_before_mlp(config), modules, config.hidden_size, /*has_bias=*/false};
}

/// Visits attention's matrices and norms.
template <class OnGain, class OnMatrix>
void visit_attention(const ModelConfig& config, const OnGain& gain, const OnMatrix& matrix) {
  const auto whole_or_head = [&](std::int64_t whole) { return config.qk_norm_whole ? whole : config.head_dim; };
  matrix(
      qkv_matrix(config), [](auto& block) -> auto& { return block.qkv; });
  if (config.qk_norm) {
    gain(
        BlockGain{"q_norm", "self_attn.q_norm", whole_or_head(config.q_size())},
        [](auto& block) -> auto& { return block.q_norm_E; });
    gain(
        BlockGain{"k_norm", "self_attn.k_norm", whole_or_head(config.kv_size())},
        [](auto& block) -> auto& { return block.k_norm_E; });
  }
  matrix(
      BlockMatrix{"o", {}, {{"self_attn.o_proj", config.hidden_size}}, config.q_size(), config.o_bias},
      [](auto& block) -> auto& { return block.o; });
}

/// Visits the parameters of a gated DeltaNet, in the order in which ops::DeltaShape stacks its projections.
template <class OnGain, class OnMatrix>
void visit_delta(const ModelConfig& config, const OnGain& gain, const OnMatrix& matrix) {
  const std::int64_t heads = config.linear_num_value_heads, channels = config.delta_channels();
  const std::string_view norm = norm_before_attention(config);
  const std::vector<BlockModule> qkvz = {{"linear_attn.in_proj_qkv", channels},
                                         {"linear_attn.in_proj_z", config.delta_size()}};
  const std::vector<BlockModule> ba = {{"linear_attn.in_proj_b", heads}, {"linear_attn.in_proj_a", heads}};
  matrix(
      BlockMatrix{"qkvz", norm, qkvz, config.hidden_size}, [](auto& block) -> auto& { return block.qkvz; });
  matrix(
      BlockMatrix{"ba", norm, ba, config.hidden_size, /*has_bias=*/false, WeightKind::wide_linear},
      [](auto& block) -> auto& { return block.ba; });
  gain(
      BlockGain{"conv", "linear_attn.conv1d", channels, WeightKind::conv, config.linear_conv_kernel_dim},
      [](auto& block) -> auto& { return block.taps_CT; });
  gain(
      BlockGain{"a_log", "linear_attn.A_log", heads, WeightKind::a_log},
      [](auto& block) -> auto& { return block.a_log_H; });
  gain(
      BlockGain{"dt_bias", "linear_attn.dt_bias", heads, WeightKind::dt_bias},
      [](auto& block) -> auto& { return block.dt_bias_H; });
  gain(
      BlockGain{"delta_norm", "linear_attn.norm", config.linear_value_head_dim, WeightKind::plain_norm},
      [](auto& block) -> auto& { return block.delta_norm_V; });
  matrix(
      BlockMatrix{"o", {}, {{"linear_attn.out_proj", config.hidden_size}}, config.delta_size()},
      [](auto& block) -> auto& { return block.o; });
}

/// Visits the parameters before a layer's feed-forward part, like visit_block.
template <class OnGain, class OnMatrix>
void visit_mixer(const ModelConfig& config, std::int64_t layer, const OnGain& gain, const OnMatrix& matrix) {
  QRL_INVARIANT(0 <= layer && layer < config.num_hidden_layers, "block",
                "one of " + std::to_string(config.num_hidden_layers) + " layers", std::to_string(layer));
  const std::int64_t width = config.hidden_size;
  if (has_norms_before(config)) {
    gain(
        BlockGain{"input_layernorm", "input_layernorm", width},
        [](auto& block) -> auto& { return block.input_norm_D; });
  }
  if (config.layer_kind(layer) == LayerKind::delta) visit_delta(config, gain, matrix);
  else visit_attention(config, gain, matrix);
  const std::string_view before_mlp = norm_before_mlp(config);
  if (config.norms != NormPlace::before) {
    // Models with norms before attention and MLP alone have this name for the norm before the MLP.
    gain(
        BlockGain{"post_attention_layernorm", "post_attention_layernorm", width},
        [](auto& block) -> auto& { return block.attention_norm_D; });
  }
  if (!before_mlp.empty()) {
    gain(
        BlockGain{before_mlp, before_mlp, width}, [](auto& block) -> auto& { return block.post_norm_D; });
  }
}

/// Calls gain(BlockGain, of) and matrix(BlockMatrix, of) for each parameter of a dense layer in forward order.
/// of(block) returns the parameter's member of a Block, or of a struct with the same members. Throws an internal error
/// for a sparse or missing layer.
template <class OnGain, class OnMatrix>
void visit_block(const ModelConfig& config, std::int64_t layer, const OnGain& gain, const OnMatrix& matrix) {
  visit_mixer(config, layer, gain, matrix);
  QRL_INVARIANT(!config.is_sparse(layer), "block", "a dense layer", "layer " + std::to_string(layer) + " of experts");
  matrix(
      gate_up_matrix(config), [](auto& block) -> auto& { return block.gate_up; });
  matrix(
      BlockMatrix{"down", {}, {{"mlp.down_proj", config.hidden_size}}, config.intermediate_size, false},
      [](auto& block) -> auto& { return block.down; });
  if (config.norms == NormPlace::before) return;
  gain(
      BlockGain{"post_feedforward_layernorm", "post_feedforward_layernorm", config.hidden_size},
      [](auto& block) -> auto& { return block.mlp_norm_D; });
}

/// Visits any layer like the function above. In a sparse layer, calls matrix for the router, then experts(BlockExperts,
/// of) twice: for gate and up together, and for down.
template <class OnGain, class OnMatrix, class OnExperts>
void visit_block(const ModelConfig& config, std::int64_t layer, const OnGain& gain, const OnMatrix& matrix,
                 const OnExperts& experts) {
  if (!config.is_sparse(layer)) return visit_block(config, layer, gain, matrix);
  visit_mixer(config, layer, gain, matrix);
  const std::int64_t width = config.hidden_size, inner = config.moe_intermediate_size, count = config.num_experts;
  matrix(
      BlockMatrix{
          "router", norm_before_mlp(config), {{"mlp.gate", count}}, width, /*has_bias=*/false, WeightKind::router},
      [](auto& block) -> auto& { return block.router; });
  experts(
      BlockExperts{{"experts.gate_up", norm_before_mlp(config), {{"gate_proj", inner}, {"up_proj", inner}}, width},
                   count,
                   "mlp.experts.gate_up_proj"},
      [](auto& block) -> auto& { return block.expert_gate_up; });
  experts(
      BlockExperts{{"experts.down", {}, {{"down_proj", width}}, inner}, count, "mlp.experts.down_proj"},
      [](auto& block) -> auto& { return block.expert_down; });
}

template <class OnMatrix>
void visit_matrices(const ModelConfig& config, std::int64_t layer, const OnMatrix& matrix) {
  visit_block(
      config, layer, [](const BlockGain&, const auto&) {}, matrix);
}

template <class OnMatrix, class OnExperts>
void visit_matrices(const ModelConfig& config, std::int64_t layer, const OnMatrix& matrix, const OnExperts& experts) {
  visit_block(
      config, layer, [](const BlockGain&, const auto&) {}, matrix, experts);
}

/// Returns a config of a dense layer of each of a model's kinds, with a family's names, and sizes of 0.
inline ModelConfig names_of(const ModelConfig& config) {
  ModelConfig names;
  names.norms = config.norms;
  names.fused_projections = config.fused_projections;
  names.num_hidden_layers = config.delta_layers.empty() ? 1 : 2;
  if (!config.delta_layers.empty()) names.delta_layers = {1};
  return names;
}

/// Calls matrix(BlockMatrix) once for each kind of matrix in dense layers. Only names are set; sizes are 0.
template <class OnMatrix>
void visit_known_matrices(const ModelConfig& config, const OnMatrix& matrix) {
  const ModelConfig names = names_of(config);
  std::vector<std::string_view> seen;
  for (std::int64_t layer = 0; layer < names.num_hidden_layers; ++layer) {
    visit_matrices(names, layer, [&](const BlockMatrix& known, const auto&) {
      const std::string_view module = known.modules.front().name;
      if (std::find(seen.begin(), seen.end(), module) != seen.end()) return;
      seen.push_back(module);
      matrix(known);
    });
  }
}

/// Returns the name of the gain before a linear weight: "model.layers.3.post_attention_layernorm.weight" for
/// "model.layers.3.mlp.up_proj.weight". Empty for other tensors, and if no norm precedes the weight.
std::string norm_before(const ModelConfig& config, const std::string& weight);

}  // namespace qrl::model
