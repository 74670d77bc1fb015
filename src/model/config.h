#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/view.h"
#include "model/families.h"
#include "types/prompt.h"

namespace qrl::model {

inline constexpr std::uint64_t kMaxConfig_bytes = 1'000'000;

/// Limit on experts per layer: a route stores an expert's index in a byte.
inline constexpr std::int64_t kMaxExperts = 256;

inline constexpr const char* kExpertsLack = "experts have no kernels for GPUs and no adapters yet";

enum class RopeType : std::uint8_t { plain, llama3, yarn, linear, longrope };

/// Names a layer's rotary table: none, that of most layers, or that of sliding layers where it differs.
enum class RopeKind : std::uint8_t { none, common, sliding };

/// Names what mixes a layer's tokens: attention, or a gated DeltaNet (ops/delta_net.h).
enum class LayerKind : std::uint8_t { attention, delta };

/// Holds config.json's rope_scaling (transformers 4) or rope_parameters (5).
struct RopeScaling {
  RopeType type = RopeType::plain;
  double factor = 1;  ///< 1 or more; not longrope's
  std::int64_t original_max_position_embeddings = 0;
  double low_freq_factor = 1, high_freq_factor = 4;  ///< llama3
  double beta_fast = 32, beta_slow = 1;              ///< yarn
  /// yarn, longrope; default: from mscale and mscale_all_dim, else from the ratio of lengths
  std::optional<double> attention_factor;
  std::optional<double> mscale, mscale_all_dim;  ///< yarn
  bool truncate = true;                          ///< yarn: round the ramp's bounds to whole dimensions
  /// longrope: divisors of the frequencies up to the original length, and beyond it. Only the former are used.
  std::vector<double> short_factor, long_factor;
  std::int64_t longest = 0;  ///< longrope: config.json's max_position_embeddings, which needs long_factor
  friend bool operator==(const RopeScaling&, const RopeScaling&) = default;
};

/// Describes a decoder-only transformer: RMSNorm, rotary positions (rotate-half), grouped-query attention, SwiGLU or
/// experts. Tensor names use the letters below.
struct ModelConfig {
  Family family = {};
  std::int64_t vocab_size = 0;               ///< V
  std::int64_t hidden_size = 0;              ///< D
  std::int64_t num_hidden_layers = 0;        ///< L
  std::int64_t num_attention_heads = 0;      ///< H
  std::int64_t num_key_value_heads = 0;      ///< K, divides H
  std::int64_t head_dim = 0;                 ///< E, even; H·E may differ from D
  std::int64_t intermediate_size = 0;        ///< F, of dense layers
  std::int64_t max_position_embeddings = 0;  ///< with longrope at most its original length
  float rms_norm_eps = 0;
  double rope_theta = 0;
  RopeScaling rope_scaling;
  double partial_rotary_factor = 1;          ///< fraction of a head's elements that rotate, from the first on
  std::vector<std::int64_t> no_rope_layers;  ///< layers without rotary positions, ascending
  std::int64_t sliding_window = 0;           ///< maximum tokens that a token of sliding_layers attends to, itself too
  std::vector<std::int64_t> sliding_layers;  ///< ascending
  double sliding_rope_theta = 0;             ///< rope base of sliding layers, which have no scaling; 0: as elsewhere
  NormPlace norms = NormPlace::before;
  float norm_offset = 0;  ///< gains are this plus the stored weights: 1 or 0
  base::Gate gate = base::Gate::silu;
  bool fused_projections = false;   ///< whether q, k and v are one tensor (qkv_proj), and gate and up (gate_up_proj)
  float embedding_multiplier = 1;   ///< factor of the embeddings
  float residual_multiplier = 1;    ///< factor of what attention and MLP add to the residual stream
  float attention_multiplier = 0;   ///< factor of the scores; 0: 1/√query_pre_attn_scalar
  float query_pre_attn_scalar = 0;  ///< 0: E
  float logits_scaling = 1;         ///< divisor of the logits
  float initializer_range = 0.02F;  ///< standard deviation of new weights; Hugging Face's default
  bool tie_word_embeddings = false;
  bool qk_norm = false;                  ///< RMSNorm on q and k before rope: over E, or as qk_norm_whole says
  bool qk_norm_whole = false;            ///< if set, with qk_norm, the norms are over H·E and K·E
  bool qkv_bias = false;                 ///< bias on q, k and v
  bool o_bias = false;                   ///< bias on o
  base::DType dtype = base::DType::f32;  ///< dtype of the folder's weights: f32 or bf16 (f16 is written as bf16)
  std::vector<types::TokenId> eos_token_ids;
  std::int64_t bos_token_id = -1;  ///< −1: none
  std::int64_t pad_token_id = -1;  ///< −1: none
  std::string generation_config;   ///< content of generation_config.json if it says more than this config; otherwise ""

  std::int64_t num_experts = 0;  ///< M, experts of a sparse layer; 0: all layers are dense
  std::int64_t num_experts_per_tok = 0;
  std::int64_t moe_intermediate_size = 0;     ///< F of an expert
  std::int64_t decoder_sparse_step = 1;       ///< each decoder_sparse_step-th layer is sparse, except mlp_only_layers
  std::vector<std::int64_t> mlp_only_layers;  ///< layers that are always dense
  bool norm_topk_prob = false;                ///< if set, the chosen experts' probabilities are divided by their sum
  float router_aux_loss_coef = 0.001F;        ///< written back unchanged; no loss uses it; transformers' default
  bool output_router_logits = false;          ///< written back unchanged

  bool attention_gate = false;  ///< if set, q_proj has each head's q, then its gate; σ(gate) multiplies the context
  std::vector<std::int64_t> delta_layers;                             ///< layers of gated DeltaNet, ascending
  std::int64_t linear_num_key_heads = 0, linear_num_value_heads = 0;  ///< Hk, Hv: of a DeltaNet layer
  std::int64_t linear_key_head_dim = 0, linear_value_head_dim = 0;    ///< dk, dv
  std::int64_t linear_conv_kernel_dim = 0;                            ///< tokens that its convolution reads
  std::vector<std::int64_t> mrope_section;  ///< of images' positions; written back unchanged; empty: not given

  LayerKind layer_kind(std::int64_t layer) const {
    const bool is_delta = std::binary_search(delta_layers.begin(), delta_layers.end(), layer);
    return is_delta ? LayerKind::delta : LayerKind::attention;
  }
  std::int64_t num_delta_layers() const { return static_cast<std::int64_t>(delta_layers.size()); }
  /// Returns the number of layers with attention, which alone have keys and values.
  std::int64_t num_attention_layers() const { return num_hidden_layers - num_delta_layers(); }
  /// Returns a layer's index among those of its kind.
  std::int64_t index_in_kind(std::int64_t layer) const {
    const auto before = std::lower_bound(delta_layers.begin(), delta_layers.end(), layer) - delta_layers.begin();
    return layer_kind(layer) == LayerKind::delta ? before : layer - before;
  }
  /// Returns the number of channels of a DeltaNet layer's convolution: q, k and v of all heads.
  std::int64_t delta_channels() const { return 2 * linear_num_key_heads * linear_key_head_dim + delta_size(); }
  std::int64_t delta_size() const { return linear_num_value_heads * linear_value_head_dim; }

  bool has_experts() const { return num_experts > 0; }
  /// Returns whether a layer has a router and experts instead of one feed-forward network.
  bool is_sparse(std::int64_t layer) const {
    return has_experts() && (layer + 1) % decoder_sparse_step == 0 &&
           std::find(mlp_only_layers.begin(), mlp_only_layers.end(), layer) == mlp_only_layers.end();
  }
  std::vector<std::int64_t> sparse_layers() const {
    std::vector<std::int64_t> layers;
    for (std::int64_t layer = 0; layer < num_hidden_layers; ++layer) {
      if (is_sparse(layer)) layers.push_back(layer);
    }
    return layers;
  }
  std::int64_t num_sparse_layers() const { return static_cast<std::int64_t>(sparse_layers().size()); }

  /// Returns how many elements of a head rotate in layers with rotary positions.
  std::int64_t rotary_dim() const {
    return static_cast<std::int64_t>(static_cast<double>(head_dim) * partial_rotary_factor);
  }
  bool slides(std::int64_t layer) const {
    return std::binary_search(sliding_layers.begin(), sliding_layers.end(), layer);
  }
  /// Returns a layer's rotary table.
  RopeKind rope(std::int64_t layer) const {
    if (std::binary_search(no_rope_layers.begin(), no_rope_layers.end(), layer)) return RopeKind::none;
    return sliding_rope_theta > 0 && slides(layer) ? RopeKind::sliding : RopeKind::common;
  }
  /// Returns the tables that exist: that of most layers, and that of sliding layers if it differs.
  std::span<const RopeKind> ropes() const {
    static constexpr RopeKind kKinds[] = {RopeKind::common, RopeKind::sliding};
    return std::span(kKinds).first(sliding_rope_theta > 0 ? 2 : 1);
  }

  /// Returns how many tokens a token attends to in a layer; 0: all before it.
  std::int64_t window(std::int64_t layer) const { return slides(layer) ? sliding_window : 0; }

  /// Returns the factor of the scores; 0: 1/√E.
  float score_scale() const {
    const bool is_own = query_pre_attn_scalar > 0 && query_pre_attn_scalar != static_cast<float>(head_dim);
    return attention_multiplier > 0 || !is_own
               ? attention_multiplier
               : static_cast<float>(1 / std::sqrt(static_cast<double>(query_pre_attn_scalar)));
  }

  std::int64_t q_size() const { return num_attention_heads * head_dim; }
  /// Returns the outputs of q_proj: those of q, and with attention_gate as many of gates.
  std::int64_t q_outputs() const { return (attention_gate ? 2 : 1) * q_size(); }
  std::int64_t kv_size() const { return num_key_value_heads * head_dim; }
  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

/// Parses a config.json; `where` names it in errors. Keys have the same meaning as in transformers.
/// - Required: model_type, every size of ModelConfig, rms_norm_eps, tie_word_embeddings, rope_theta and dtype (or
///   torch_dtype). Most families may omit head_dim: it is then hidden_size / num_attention_heads.
/// - Omitted keys have transformers' value: hidden_act "silu", no biases but those that a family always has, no
/// dropout,
///   initializer_range 0.02, multipliers of 1. An omitted window is none, except where the family assumes one.
/// - Refused by name: a model_type or architecture that family_table.cpp lacks, an unknown rope_type, mlp_bias, another
///   activation, dropout, quantization_config, remote code.
/// - Also refused: keys by which other families change the forward pass (multipliers, soft caps, …), and windows of a
///   family whose models have none.
/// - With longrope, max_position_embeddings is at most the original length: longer sequences need other frequencies.
/// - Experts require num_experts or num_local_experts of at most 256, num_experts_per_tok, moe_intermediate_size and
///   norm_topk_prob. Shared experts are refused.
/// - DeltaNet layers follow from layer_types, else from full_attention_interval; one layer or more has attention.
/// - Ignored: null values, keys without effect on the forward pass, and unknown keys, which unknown_config_keys lists.
ModelConfig parse_config(std::string_view json_text, const std::string& where);
/// Reads a config.json of at most 1 MB; warns of unknown keys and of float16 weights.
ModelConfig read_config(const std::filesystem::path& file);

/// Returns the first part of the model that the CUDA kernels lack: "experts"; empty if they have all.
std::string missing_on_gpu(const ModelConfig& config);

/// Returns the keys that are neither read nor known to be harmless.
std::vector<std::string> unknown_config_keys(std::string_view json_text, const std::string& where);

/// Returns the end tokens of a generation_config.json, if any. Throws an input error for ids outside the vocabulary.
std::optional<std::vector<types::TokenId>> parse_generation_eos(std::string_view json_text, const std::string& where,
                                                                std::int64_t vocab_size);

/// Returns a warning if a generation_config.json has stop_strings, otherwise "".
std::string stop_strings_note(std::string_view json_text, const std::string& where);

/// Returns a line with the end tokens, checked against the folder's config.json.
std::string describe_generation(const std::filesystem::path& file);

std::string describe_config(const std::filesystem::path& file);

/// Returns a config.json for transformers 4 and 5 (rope_theta and rope_parameters, torch_dtype and dtype). parse_config
/// reads it back unchanged.
std::string config_json(const ModelConfig& config);

/// Decides a tensor's initialization, its optimizer group, and whether it may be quantized. wide_linear: a linear layer
/// that is never quantized. plain_norm: a gain without ModelConfig::norm_offset. The last three are DeltaNet's.
enum class WeightKind : std::uint8_t {
  embedding,
  norm,
  linear,
  bias,
  lm_head,
  router,
  wide_linear,
  plain_norm,
  conv,
  a_log,
  dt_bias
};

constexpr bool is_layer_matrix(WeightKind kind) {
  return kind == WeightKind::linear || kind == WeightKind::router || kind == WeightKind::wide_linear;
}
constexpr bool is_norm(WeightKind kind) { return kind == WeightKind::norm || kind == WeightKind::plain_norm; }
/// Returns whether a tensor is small: it is fp32 in each form, and no optimizer decays it.
constexpr bool is_vector(WeightKind kind) {
  return is_norm(kind) || kind == WeightKind::bias || kind == WeightKind::conv || kind == WeightKind::a_log ||
         kind == WeightKind::dt_bias;
}

/// Describes a part of a tensor. Hugging Face's files store the part as a tensor of its own.
struct StoredPart {
  std::string name;        ///< "model.layers.0.mlp.experts.3.up_proj.weight"
  base::Shape shape;       ///< [out, in]
  std::int64_t first = 0;  ///< index of the part's first element in the whole tensor
};

/// Describes a tensor. A sparse layer's experts are two tensors: "…mlp.experts.gate_up_proj.weight" [M, 2F, D], gate
/// before up in each expert, and "…mlp.experts.down_proj.weight" [M, D, F].
struct WeightSpec {
  std::string name;   ///< Hugging Face name: "model.layers.0.self_attn.q_proj.weight"
  base::Shape shape;  ///< linears: [out, in]
  WeightKind kind = WeightKind::linear;
  std::vector<StoredPart> parts;  ///< parts in memory order; empty: stored whole
};

/// Returns the model's tensors in order: embedding, layers 0…L−1, final norm, lm_head unless tied.
std::vector<WeightSpec> weight_specs(const ModelConfig& config);

/// Returns the tensors that files store for a spec: its parts, or the whole tensor.
std::vector<StoredPart> stored_parts(const WeightSpec& spec);

/// Counts all elements; a tied lm_head counts once.
std::int64_t num_parameters(const ModelConfig& config);
/// Counts the elements that one token uses. In a sparse layer, it counts only the experts chosen for the token.
std::int64_t num_active_parameters(const ModelConfig& config);

}  // namespace qrl::model
