// Tests the configs of models with gated DeltaNet layers.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/block.h"
#include "model/config.h"
#include "model/weights.h"
#include "support/catch.h"
#include "support/files.h"

using namespace qrl;
using namespace qrl::model;
using Json = nlohmann::json;

namespace {

Json published_delta(const std::string& model) {
  const auto file = test::shipped_data() / "golden" / "hf_configs" / (model + ".published.json");
  return Json::parse(test::read_file(file));
}

std::string refusal_of(const Json& config) {
  try {
    (void)parse_config(config.dump(), "x");
  } catch (const base::Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("config.json: rotary keys may stand in either form, and have transformers' values where they lack") {
  Json config = published_delta("qwen3.5_0.8b").at("text_config");
  config.erase("rope_parameters");
  config.erase("partial_rotary_factor");
  const auto read = [&] { return parse_config(config.dump(), "x"); };
  config["rope_scaling"] = {{"rope_type", "default"}, {"rope_theta", 1e4}, {"partial_rotary_factor", 0.5}};
  CHECK(read().partial_rotary_factor == 0.5);
  CHECK(read().rope_theta == 1e4);
  config.erase("rope_scaling");
  config["rope_parameters"] = {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}};
  CHECK(read().partial_rotary_factor == 0.5);
  CHECK(read().rope_theta == 1e4);
  config["partial_rotary_factor"] = 0.5;  // in both places
  CHECK(read().partial_rotary_factor == 0.5);
  config["partial_rotary_factor"] = 0.25;
  CHECK(refusal_of(config).find("the same as x: \"partial_rotary_factor\"") != std::string::npos);
  config.erase("partial_rotary_factor");
  config["rope_parameters"] = nullptr;
  CHECK(read().partial_rotary_factor == 0.25);
}

TEST_CASE("config.json: gated attention is refused on a GPU, also where all layers have attention") {
  Json config = published_delta("qwen3.5_0.8b").at("text_config");
  config.erase("layer_types");
  config["full_attention_interval"] = 1;
  CHECK(missing_on_gpu(parse_config(config.dump(), "x")) == "gates of attention's output");
}

TEST_CASE("config.json: published ones with DeltaNet layers are read, with transformers' number of parameters") {
  for (const auto& [model, count] : {std::pair{"qwen3.5_0.8b", 752393024L}, {"qwen3.5_9b", 8953803264L}}) {
    INFO(model);
    const std::string text = published_delta(model).dump();
    const ModelConfig config = parse_config(text, model);
    CHECK(num_parameters(config) == count);
    CHECK(unknown_config_keys(text, model).empty());
    for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
      CHECK((config.layer_kind(layer) == LayerKind::attention) == (layer % 4 == 3));
    CHECK(config.num_attention_layers() == config.num_hidden_layers / 4);
    CHECK(config.attention_gate);
    CHECK(config.norm_offset == 1);
    CHECK(config.rotary_dim() == 64);
    CHECK(config.rope_theta == 1e7);
    CHECK(config.mrope_section == std::vector<std::int64_t>{11, 11, 10});
    CHECK(config.sliding_layers.empty());
    CHECK(missing_on_gpu(config) == "layers of gated DeltaNet");
    CHECK(parse_config(config_json(config), "x") == config);
    CHECK(unknown_config_keys(config_json(config), "x").empty());
    CHECK(config_json(parse_config(config_json(config), "x")) == config_json(config));
  }
  CHECK(parse_config(published_delta("qwen3.5_9b").dump(), "x").delta_channels() == 8192);
}

TEST_CASE("config.json: missing keys of a model with DeltaNet layers have transformers' values") {
  const Json least = {{"model_type", "qwen3_5_text"}, {"dtype", "bfloat16"}};
  const ModelConfig config = parse_config(least.dump(), "x");
  ModelConfig large = parse_config(published_delta("qwen3.5_9b").dump(), "x");
  large.rope_theta = 1e4, large.max_position_embeddings = 32768;
  large.mrope_section.clear(), large.eos_token_ids.clear();
  CHECK(config == large);
  Json every_second = least;
  every_second["full_attention_interval"] = 2;
  every_second["rope_parameters"] = {{"rope_theta", 1e4}, {"partial_rotary_factor", 0.5}};
  every_second["num_hidden_layers"] = 5;
  CHECK(parse_config(every_second.dump(), "x").delta_layers == std::vector<std::int64_t>{0, 2, 4});
  CHECK(parse_config(every_second.dump(), "x").rotary_dim() == 128);
}

TEST_CASE("config.json: DeltaNet layers that are not computed are refused by the name of their key") {
  const Json published = published_delta("qwen3.5_0.8b");
  CHECK(refusal_of(published).empty());
  const std::vector<std::string> all_linear(24, "linear_attention"), all_other(24, "sliding_attention");
  for (const auto& [key, value] : std::vector<std::pair<std::string, Json>>{{"layer_types", all_linear},
                                                                            {"layer_types", all_other},
                                                                            {"layer_types", {"full_attention"}},
                                                                            {"linear_num_value_heads", 24},
                                                                            {"linear_conv_kernel_dim", 1},
                                                                            {"linear_conv_kernel_dim", 5},
                                                                            {"linear_key_head_dim", 0},
                                                                            {"linear_key_head_dim", 272},
                                                                            {"linear_value_head_dim", 24},
                                                                            {"num_experts", 8},
                                                                            {"mlp_only_layers", {1}},
                                                                            {"attn_output_gate", false},
                                                                            {"output_gate_type", "sigmoid"},
                                                                            {"mamba_ssm_dtype", "bfloat16"},
                                                                            {"sliding_window", 4096},
                                                                            {"use_sliding_window", true}}) {
    Json bad = published;
    bad["text_config"][key] = value;
    INFO(key << ": " << value.dump());
    CHECK(refusal_of(bad).find(key) != std::string::npos);
  }
  for (const Json& sections : {Json{11, 11, 11}, Json{11, 21}, Json{-1, 22, 11}, Json("11")}) {
    Json bad = published;
    bad["text_config"]["rope_parameters"]["mrope_section"] = sections;
    INFO(sections.dump());
    CHECK(refusal_of(bad).find("mrope_section") != std::string::npos);
  }
  Json no_types = published;
  no_types["text_config"].erase("layer_types");
  no_types["text_config"]["full_attention_interval"] = 25;
  CHECK(refusal_of(no_types).find("full_attention_interval") != std::string::npos);
  for (const std::string type : {"qwen3_5_moe", "qwen3_5_moe_text", "qwen3_next"}) {
    Json other = published;
    other["model_type"] = type;
    CHECK(refusal_of(other).find("shared expert") != std::string::npos);
  }
}

TEST_CASE("block: a DeltaNet layer has its own parameters, and names of all layers are known") {
  const ModelConfig config = parse_config(published_delta("qwen3.5_0.8b").dump(), "x");
  std::vector<std::string> walk;
  visit_block(
      config, 0, [&](const BlockGain& gain, const auto&) { walk.push_back(gain.tensor()); },
      [&](const BlockMatrix& matrix, const auto&) { walk.emplace_back(matrix.name); });
  CHECK(walk == std::vector<std::string>{"input_layernorm.weight", "qkvz", "ba", "linear_attn.conv1d.weight",
                                         "linear_attn.A_log", "linear_attn.dt_bias", "linear_attn.norm.weight", "o",
                                         "post_attention_layernorm.weight", "gate_up", "down"});
  std::vector<std::string> known;
  visit_known_matrices(config, [&](const BlockMatrix& matrix) { known.emplace_back(matrix.modules.front().name); });
  CHECK(known == std::vector<std::string>{"self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.down_proj",
                                          "linear_attn.in_proj_qkv", "linear_attn.in_proj_b", "linear_attn.out_proj"});
  CHECK(norm_before(config, "model.layers.0.linear_attn.in_proj_a.weight") == "model.layers.0.input_layernorm.weight");
  CHECK(norm_before(config, "model.layers.0.linear_attn.out_proj.weight").empty());
  std::vector<std::string> specs;
  for (const WeightSpec& spec : weight_specs(config)) specs.push_back(spec.name + " " + spec.shape.to_string());
  for (const std::string spec : {"layers.3.self_attn.q_proj.weight [4096, 1024]", "layers.0.linear_attn.A_log [16]",
                                 "layers.0.linear_attn.conv1d.weight [6144, 1, 4]"})
    CHECK(std::ranges::count(specs, "model." + spec) == 1);
}

TEST_CASE("new weights: of a DeltaNet layer begin as transformers' do") {
  ModelConfig config = parse_config(published_delta("qwen3.5_0.8b").dump(), "x");
  config.linear_num_key_heads = config.linear_num_value_heads = 512;
  const WeightSource source = new_weights(config, 1);
  const auto values = [&](const WeightSpec& spec) {
    std::vector<float> read(static_cast<std::size_t>(spec.shape.numel()));
    source.read(spec, read.data());
    return read;
  };
  for (const WeightSpec& spec : weight_specs(config)) {
    if (!spec.name.starts_with("model.layers.0.")) continue;
    if (spec.kind == WeightKind::plain_norm || spec.kind == WeightKind::dt_bias)
      CHECK(std::ranges::all_of(values(spec), [](float value) { return value == 1; }));
    if (spec.kind == WeightKind::norm) CHECK(std::ranges::all_of(values(spec), [](float value) { return value == 0; }));
    if (spec.kind != WeightKind::a_log) continue;
    double sum = 0;
    for (const float value : values(spec)) {
      REQUIRE((std::exp(value) >= 0.00999F && std::exp(value) <= 16.001F));
      sum += std::exp(value);
    }
    CHECK(std::fabs(sum / 512 - 8) < 1);  // the mean of U(0.01, 16); five standard errors
  }
}
