#include "shapes.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace qrl::app {

namespace {

struct Shape {
  const char* name;
  std::int64_t vocab_size, hidden_size, num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim,
      intermediate_size;
  bool tied, qk_norm, qkv_bias;
  /// A dense model has 0 experts. Otherwise, intermediate_size is each expert's size.
  std::int64_t num_experts = 0, num_experts_per_tok = 0;
  /// Value heads of DeltaNet layers, which are all but each fourth; 0: all layers have attention.
  std::int64_t num_delta_heads = 0;

  bool is_plain() const { return num_experts == 0 && num_delta_heads == 0; }
};
constexpr std::array kShapes = {Shape{"86m", 4096, 768, 12, 12, 4, 64, 2304, true, true, false},
                                Shape{"quickstart", 259, 96, 3, 3, 1, 32, 256, true, true, false},
                                Shape{"smollm2-135m", 49152, 576, 30, 9, 3, 64, 1536, true, false, false},
                                Shape{"1.5b", 151936, 1536, 28, 12, 2, 128, 8960, true, false, true},
                                Shape{"qwen3-0.6b", 151936, 1024, 28, 16, 8, 128, 3072, true, true, false},
                                Shape{"qwen3.5-0.8b", 248320, 1024, 24, 8, 2, 256, 3584, true, true, false, 0, 0, 16},
                                Shape{"8b", 151936, 4096, 36, 32, 8, 128, 12288, false, true, false},
                                Shape{"moe-1b", 151936, 1024, 28, 16, 8, 128, 768, true, true, false, 16, 4}};

constexpr std::array kGpuKvFormats = {quant::KvFormat::bf16, quant::KvFormat::int8, quant::KvFormat::fp8_e4m3};

std::vector<quant::Format> gpu_formats() {
  std::vector<quant::Format> formats;
  for (int i = 0; i < quant::kNumFormats; ++i) {
    if (const auto format = static_cast<quant::Format>(i); format != quant::Format::f32) formats.push_back(format);
  }
  return formats;
}

template <class Formats>
auto named(const Formats& formats, const std::string& name) {
  for (const auto format : formats) {
    if (quant::name(format) == name) return format;
  }
  base::fail_internal("bench", "a format's name", name);
}
template <class Formats>
std::vector<std::string> names_of(const Formats& formats) {
  std::vector<std::string> names;
  names.reserve(formats.size());
  for (const auto format : formats) names.emplace_back(quant::name(format));
  return names;
}

/// Gives a config Qwen3.5's layers: 16 key heads of 128, gated attention in each fourth layer.
void add_delta_layers(std::int64_t num_value_heads, model::ModelConfig& config) {
  config.attention_gate = true;
  config.norm_offset = 1;
  config.partial_rotary_factor = 0.25;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    if (layer % 4 != 3) config.delta_layers.push_back(layer);
  config.linear_num_key_heads = 16, config.linear_num_value_heads = num_value_heads;
  config.linear_key_head_dim = config.linear_value_head_dim = 128;
  config.linear_conv_kernel_dim = 4;
}

}  // namespace

std::vector<std::string> gpu_format_names() { return names_of(gpu_formats()); }
quant::Format gpu_format(const std::string& name) { return named(gpu_formats(), name); }
std::vector<std::string> gpu_kv_format_names() { return names_of(kGpuKvFormats); }
quant::KvFormat gpu_kv_format(const std::string& name) { return named(kGpuKvFormats, name); }

model::ModelConfig built_in_shape(const std::string& name) {
  const Shape& shape = *std::ranges::find_if(kShapes, [&](const Shape& each) { return each.name == name; });
  model::ModelConfig config;
  config.vocab_size = shape.vocab_size;
  config.hidden_size = shape.hidden_size;
  config.num_hidden_layers = shape.num_hidden_layers;
  config.num_attention_heads = shape.num_attention_heads;
  config.num_key_value_heads = shape.num_key_value_heads;
  config.head_dim = shape.head_dim;
  config.intermediate_size = shape.intermediate_size;
  config.max_position_embeddings = 8192;
  config.rms_norm_eps = 1e-6F;
  config.rope_theta = 1e6;
  config.tie_word_embeddings = shape.tied;
  config.qk_norm = shape.qk_norm;
  config.qkv_bias = shape.qkv_bias;
  if (shape.num_delta_heads > 0) add_delta_layers(shape.num_delta_heads, config);
  if (shape.num_experts == 0) return config;
  config.num_experts = shape.num_experts;
  config.num_experts_per_tok = shape.num_experts_per_tok;
  config.moe_intermediate_size = shape.intermediate_size;
  config.norm_topk_prob = true;
  return config;
}

std::vector<std::string> shape_names(bool all) {
  std::vector<std::string> names;
  for (const Shape& shape : kShapes) {
    if (all || shape.is_plain()) names.emplace_back(shape.name);
  }
  return names;
}

}  // namespace qrl::app
