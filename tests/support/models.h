// Makes configs of small models for tests.
#pragma once

#include "model/config.h"

namespace qrl::test {

struct ModelSizes {
  std::int64_t vocab_size = 0, hidden_size = 0, num_hidden_layers = 2;
  std::int64_t num_attention_heads = 0, num_key_value_heads = 0, head_dim = 0, intermediate_size = 0;
  std::int64_t max_position_embeddings = 32;
};

struct ModelParts {
  bool tied = true, qk_norm = false, qkv_bias = false, o_bias = false;
};

/// Returns the norms and biases that test most of a family: q and k normed in Qwen3, biases in Qwen2 and Llama.
inline ModelParts parts_of(model::Family family, bool tied) {
  const bool is_qwen3 = family == model::Family::qwen3 || family == model::Family::qwen3_moe;
  return {tied, is_qwen3, !is_qwen3, family == model::Family::llama};
}

inline model::ModelConfig model_config(model::Family family, const ModelSizes& sizes, const ModelParts& parts = {}) {
  model::ModelConfig config;
  config.family = family;
  config.vocab_size = sizes.vocab_size;
  config.hidden_size = sizes.hidden_size;
  config.num_hidden_layers = sizes.num_hidden_layers;
  config.num_attention_heads = sizes.num_attention_heads;
  config.num_key_value_heads = sizes.num_key_value_heads;
  config.head_dim = sizes.head_dim;
  config.intermediate_size = sizes.intermediate_size;
  config.max_position_embeddings = sizes.max_position_embeddings;
  config.rms_norm_eps = 1e-6F;
  config.rope_theta = 1e4;
  config.tie_word_embeddings = parts.tied;
  config.qk_norm = parts.qk_norm;
  config.qkv_bias = parts.qkv_bias;
  config.o_bias = parts.o_bias;
  return config;
}

/// Gives a config the flags of a family, switched on: multipliers, layers without rope, a part of a head that rotates.
inline model::ModelConfig with_flags(model::ModelConfig config, model::Family family) {
  const model::FamilySpec& spec = model::spec_of(family);
  config.family = family;
  config.norms = spec.norms;
  config.fused_projections = spec.fused_projections;
  config.qk_norm = spec.qk_norm != model::QkNorm::none;
  config.qk_norm_whole = spec.qk_norm == model::QkNorm::whole;
  config.qkv_bias = config.o_bias = spec.bias == model::AttentionBias::by_key;
  constexpr float kNumbers[] = {2.5F, 0.3F, 0.7F, 1.5F};
  for (std::size_t i = 0; i < spec.numbers.size(); ++i) config.*spec.numbers[i].member = kNumbers[i];
  config.norm_offset = spec.norm_offset;
  config.gate = spec.gate;
  if (spec.scales_embedding) config.embedding_multiplier = 5;
  if (spec.sliding_theta != nullptr) {
    config.sliding_rope_theta = 100;
    config.sliding_window = 5;
    config.sliding_layers = {0};
  }
  if (spec.delta_layers) {
    config.attention_gate = true;
    config.delta_layers = {0};
    config.linear_num_key_heads = 2, config.linear_num_value_heads = 4;
    config.linear_key_head_dim = 16, config.linear_value_head_dim = 32;
    config.linear_conv_kernel_dim = 3;
  }
  if (spec.layers_without_rope) config.no_rope_layers = {1};
  if (spec.partial_rotary) config.partial_rotary_factor = 0.6;
  return config;
}

/// Makes a model of 3 layers a mixture: 2 of 5 experts act on a token in layers 0 and 2.
inline model::ModelConfig with_experts(model::ModelConfig config, std::int64_t width, bool norm_topk_prob = true) {
  config.family = model::Family::qwen3_moe;
  config.num_hidden_layers = 3;
  config.num_experts = 5;
  config.num_experts_per_tok = 2;
  config.moe_intermediate_size = width;
  config.mlp_only_layers = {1};
  config.norm_topk_prob = norm_topk_prob;
  return config;
}

}  // namespace qrl::test
