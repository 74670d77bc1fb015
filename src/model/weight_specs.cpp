#include "model/config.h"

namespace qrl::model {

std::vector<WeightSpec> weight_specs(const ModelConfig& config) {
  const std::int64_t width = config.hidden_size;
  std::vector<WeightSpec> specs = {{"model.embed_tokens.weight", {config.vocab_size, width}, WeightKind::embedding}};
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    const auto add = [&](const std::string& name, const base::Shape& shape, WeightKind kind) {
      specs.push_back({prefix + name, shape, kind});
    };
    const auto add_projection = [&](const std::string& name, std::int64_t out) {
      add("self_attn." + name + ".weight", {out, width}, WeightKind::linear);
      if (config.qkv_bias) add("self_attn." + name + ".bias", {out}, WeightKind::bias);
    };
    add("input_layernorm.weight", {width}, WeightKind::norm);
    add_projection("q_proj", config.q_size());
    add_projection("k_proj", config.kv_size());
    add_projection("v_proj", config.kv_size());
    if (config.qk_norm) {
      add("self_attn.q_norm.weight", {config.head_dim}, WeightKind::norm);
      add("self_attn.k_norm.weight", {config.head_dim}, WeightKind::norm);
    }
    add("self_attn.o_proj.weight", {width, config.q_size()}, WeightKind::linear);
    if (config.o_bias) add("self_attn.o_proj.bias", {width}, WeightKind::bias);
    add("post_attention_layernorm.weight", {width}, WeightKind::norm);
    add("mlp.gate_proj.weight", {config.intermediate_size, width}, WeightKind::linear);
    add("mlp.up_proj.weight", {config.intermediate_size, width}, WeightKind::linear);
    add("mlp.down_proj.weight", {width, config.intermediate_size}, WeightKind::linear);
  }
  specs.push_back({"model.norm.weight", {width}, WeightKind::norm});
  if (!config.tie_word_embeddings) specs.push_back({"lm_head.weight", {config.vocab_size, width}, WeightKind::lm_head});
  return specs;
}

std::int64_t num_parameters(const ModelConfig& config) {
  std::int64_t total = 0;
  for (const WeightSpec& spec : weight_specs(config)) total += spec.shape.numel();
  return total;
}

}  // namespace qrl::model
