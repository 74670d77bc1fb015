#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/config.h"
#include "model/config_reader.h"
#include "model/families.h"
#include "ops/delta_net.h"

namespace qrl::model {

namespace {

using Json = nlohmann::json;

constexpr const char *kFull = "full_attention", *kDelta = "linear_attention";
constexpr const char *kTypes = "layer_types", *kInterval = "full_attention_interval";
constexpr std::int64_t kMaxDeltaHeads = 4096;
constexpr std::int64_t kMinConv = 2;

std::int64_t delta_dim(const ConfigReader& reader, const std::string& key) {
  const std::int64_t dim = reader.size(key, ops::kMaxDeltaDim);
  QRL_REQUIRE(dim % ops::kDeltaDimMultiple == 0, reader.at(key),
              "a multiple of " + std::to_string(ops::kDeltaDimMultiple), std::to_string(dim));
  return dim;
}

std::vector<std::int64_t> delta_layers(const ConfigReader& reader, const ModelConfig& config) {
  std::vector<std::int64_t> layers;
  const Json* types = reader.find(kTypes);
  if (types == nullptr) {
    const std::int64_t interval = reader.size(kInterval, kMaxWidth);
    for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
      if ((layer + 1) % interval != 0) layers.push_back(layer);
    return layers;
  }
  const auto is_known = [](const Json& type) { return type == kFull || type == kDelta; };
  QRL_REQUIRE(types->is_array() && types->size() == static_cast<std::size_t>(config.num_hidden_layers) &&
                  std::all_of(types->begin(), types->end(), is_known),
              reader.at(kTypes), "\"full_attention\" or \"linear_attention\" for each layer",
              state::shown_value(*types));
  for (std::size_t layer = 0; layer < types->size(); ++layer)
    if ((*types)[layer] == kDelta) layers.push_back(static_cast<std::int64_t>(layer));
  return layers;
}

/// Reads the sections of images' positions. A text's positions are equal in all sections, so they have no effect.
void read_sections(const ConfigReader& reader, ModelConfig& config) {
  const Json* rope = reader.find("rope_parameters");
  if (rope == nullptr) rope = reader.find("rope_scaling");
  if (rope == nullptr || !rope->contains("mrope_section") || (*rope)["mrope_section"].is_null()) return;
  const Json& sections = (*rope)["mrope_section"];
  std::int64_t sum = 0;
  bool are_counts = sections.is_array() && sections.size() == 3;
  for (std::size_t i = 0; are_counts && i < sections.size(); ++i) {
    are_counts = sections[i].is_number_unsigned() && sections[i] <= kMaxWidth;
    if (!are_counts) break;
    config.mrope_section.push_back(sections[i].get<std::int64_t>());
    sum += config.mrope_section.back();
  }
  const std::int64_t half = config.rotary_dim() / 2;
  QRL_REQUIRE(are_counts && sum == half, reader.at("rope_parameters") + ".mrope_section",
              "three numbers whose sum is half of the rotating elements, " + std::to_string(half),
              state::shown_value(sections));
}

}  // namespace

void read_delta(const ConfigReader& reader, ModelConfig& config) {
  reader.require_only("attn_output_gate", true);
  reader.require_only("output_gate_type", "swish");
  reader.require_only("mamba_ssm_dtype", "float32");
  reader.require_only("mlp_only_layers", Json::array());
  reader.require_only("use_sliding_window", false);
  reader.require_only("sliding_window", nullptr);
  config.attention_gate = true;
  config.delta_layers = delta_layers(reader, config);
  QRL_REQUIRE(config.num_attention_layers() > 0, reader.at(reader.find(kTypes) != nullptr ? kTypes : kInterval),
              "a layer of full_attention or more", "linear_attention in all layers");
  config.linear_num_key_heads = reader.size("linear_num_key_heads", kMaxDeltaHeads);
  config.linear_num_value_heads = reader.size("linear_num_value_heads", kMaxDeltaHeads);
  config.linear_key_head_dim = delta_dim(reader, "linear_key_head_dim");
  config.linear_value_head_dim = delta_dim(reader, "linear_value_head_dim");
  config.linear_conv_kernel_dim = reader.size("linear_conv_kernel_dim", kMaxWidth);
  QRL_REQUIRE(config.linear_num_value_heads % config.linear_num_key_heads == 0, reader.at("linear_num_value_heads"),
              "a multiple of linear_num_key_heads (" + std::to_string(config.linear_num_key_heads) + ")",
              std::to_string(config.linear_num_value_heads));
  QRL_REQUIRE(config.linear_conv_kernel_dim >= kMinConv && config.linear_conv_kernel_dim <= ops::kMaxConvWidth,
              reader.at("linear_conv_kernel_dim"), "2, 3 or 4", std::to_string(config.linear_conv_kernel_dim));
  read_sections(reader, config);
}

void write_delta(const ModelConfig& config, Json& root) {
  Json types = Json::array();
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    types.push_back(config.layer_kind(layer) == LayerKind::delta ? kDelta : kFull);
  root[kTypes] = types;
  root["attn_output_gate"] = true;
  root["linear_conv_kernel_dim"] = config.linear_conv_kernel_dim;
  root["linear_key_head_dim"] = config.linear_key_head_dim;
  root["linear_num_key_heads"] = config.linear_num_key_heads;
  root["linear_num_value_heads"] = config.linear_num_value_heads;
  root["linear_value_head_dim"] = config.linear_value_head_dim;
  root["mamba_ssm_dtype"] = "float32";
  if (config.mrope_section.empty()) return;
  root["rope_parameters"]["mrope_section"] = config.mrope_section;
  root["rope_parameters"]["mrope_interleaved"] = true;
}

std::string describe_delta(const ModelConfig& config) {
  if (config.delta_layers.empty()) return "";
  return ", gated DeltaNet in " + std::to_string(config.delta_layers.size()) + " layers (" +
         std::to_string(config.linear_num_key_heads) + "/" + std::to_string(config.linear_num_value_heads) +
         " heads of " + std::to_string(config.linear_key_head_dim) + "/" +
         std::to_string(config.linear_value_head_dim) + ", convolution of " +
         std::to_string(config.linear_conv_kernel_dim) + ")";
}

}  // namespace qrl::model
