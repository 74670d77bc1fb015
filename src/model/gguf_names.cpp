#include "model/gguf_names.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace qrl::model {

namespace {

struct GgufName {
  std::string_view module, stem;
};
constexpr GgufName kModuleNames[] = {{"self_attn.q_proj", "attn_q"},          {"self_attn.k_proj", "attn_k"},
                                     {"self_attn.v_proj", "attn_v"},          {"self_attn.o_proj", "attn_output"},
                                     {"self_attn.q_norm", "attn_q_norm"},     {"self_attn.k_norm", "attn_k_norm"},
                                     {"mlp.gate_proj", "ffn_gate"},           {"mlp.up_proj", "ffn_up"},
                                     {"mlp.down_proj", "ffn_down"},           {"input_layernorm", "attn_norm"},
                                     {"post_attention_layernorm", "ffn_norm"}};
/// Names in models with norms before and behind attention and MLP.
constexpr GgufName kNormNames[] = {{"post_attention_layernorm", "post_attention_norm"},
                                   {"pre_feedforward_layernorm", "ffn_norm"},
                                   {"post_feedforward_layernorm", "post_ffw_norm"}};
constexpr GgufName kTableNames[] = {
    {"model.embed_tokens", "token_embd"}, {"model.norm", "output_norm"}, {"lm_head", "output"}};

std::string_view stem_of(std::span<const GgufName> names, std::string_view module) {
  const auto found = std::ranges::find(names, module, &GgufName::module);
  QRL_INVARIANT(found != names.end(), "gguf", "a module with a name in GGUF", std::string(module));
  return found->stem;
}

}  // namespace

std::string gguf_name(const ModelConfig& config, const std::string& weight) {
  const std::size_t dot = weight.rfind('.');
  const std::string module = weight.substr(0, dot), kind = weight.substr(dot);
  const std::string layers = "model.layers.";
  if (!module.starts_with(layers)) return std::string(stem_of(kTableNames, module)) + kind;
  const std::size_t end = module.find('.', layers.size());
  const std::string_view inner = std::string_view(module).substr(end + 1);
  const bool is_own = config.norms == NormPlace::both &&
                      std::ranges::find(kNormNames, inner, &GgufName::module) != std::end(kNormNames);
  return "blk." + module.substr(layers.size(), end - layers.size()) + "." +
         std::string(is_own ? stem_of(kNormNames, inner) : stem_of(kModuleNames, inner)) + kind;
}

void reorder_rows(const ModelConfig& config, const WeightSpec& spec, RowOrder order, float* values) {
  if (!spec_of(config.family).gguf_permutes) return;
  const bool is_q = spec.name.find(".q_proj.") != std::string::npos;
  if (!is_q && spec.name.find(".k_proj.") == std::string::npos) return;
  const std::int64_t num_heads = is_q ? config.num_attention_heads : config.num_key_value_heads;
  const std::int64_t width = spec.shape.rank() == 2 ? spec.shape[1] : 1, half = config.head_dim / 2;
  std::vector<float> head(static_cast<std::size_t>(config.head_dim * width));
  for (std::int64_t h = 0; h < num_heads; ++h) {
    float* own = values + h * config.head_dim * width;
    std::copy_n(own, config.head_dim * width, head.begin());
    for (std::int64_t row = 0; row < config.head_dim; ++row) {
      const std::int64_t interleaved = row % half * 2 + row / half;
      const bool to_halves = order == RowOrder::hugging_face;
      std::copy_n(head.begin() + (to_halves ? interleaved : row) * width, width,
                  own + (to_halves ? row : interleaved) * width);
    }
  }
}

}  // namespace qrl::model
