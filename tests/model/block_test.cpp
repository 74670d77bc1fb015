// Tests the walk of a layer's parameters.
#include "model/block.h"

#include <algorithm>

#include "support/catch.h"

using namespace qrl;
using namespace qrl::model;

namespace {

/// Returns the names of a layer's parameters in the order of its walk.
std::vector<std::string> walk_of(const ModelConfig& config, std::int64_t layer) {
  std::vector<std::string> names;
  visit_block(
      config, layer, [&](const BlockGain& gain, const auto&) { names.emplace_back(gain.name); },
      [&](const BlockMatrix& matrix, const auto&) { names.emplace_back(matrix.name); });
  return names;
}

ModelConfig three_layers(bool qk_norm) {
  ModelConfig config;
  config.num_hidden_layers = 3;
  config.qk_norm = qk_norm;
  return config;
}

}  // namespace

TEST_CASE("block: a dense layer is visited in the order of the forward pass") {
  for (std::int64_t layer = 0; layer < 3; ++layer) {
    CHECK(walk_of(three_layers(false), layer) ==
          std::vector<std::string>{"input_layernorm", "qkv", "o", "post_attention_layernorm", "gate_up", "down"});
    CHECK(walk_of(three_layers(true), layer) == std::vector<std::string>{"input_layernorm", "qkv", "q_norm", "k_norm",
                                                                         "o", "post_attention_layernorm", "gate_up",
                                                                         "down"});
  }
}

TEST_CASE("block: norms behind attention and MLP are visited without norms before them") {
  ModelConfig config = three_layers(true);
  config.norms = NormPlace::after;
  CHECK(walk_of(config, 1) == std::vector<std::string>{"qkv", "q_norm", "k_norm", "o", "post_attention_layernorm",
                                                       "gate_up", "down", "post_feedforward_layernorm"});
  CHECK(!has_norms_before(config));
  CHECK(norm_before(config, "model.layers.1.mlp.up_proj.weight").empty());
  CHECK(norm_before(three_layers(true), "model.layers.1.mlp.up_proj.weight") ==
        "model.layers.1.post_attention_layernorm.weight");
}

TEST_CASE("block: fused projections have one tensor for q, k and v, and one for gate and up") {
  ModelConfig config = three_layers(false);
  config.num_attention_heads = 3, config.num_key_value_heads = 1, config.head_dim = 4;
  config.hidden_size = 7, config.intermediate_size = 5;
  const std::int64_t separate = num_parameters(config);
  config.fused_projections = true;
  CHECK(num_parameters(config) == separate);
  std::vector<std::string> names;
  for (const WeightSpec& spec : weight_specs(config)) names.push_back(spec.name + " " + spec.shape.to_string());
  CHECK(std::ranges::count(names, "model.layers.2.self_attn.qkv_proj.weight [20, 7]") == 1);
  CHECK(std::ranges::count(names, "model.layers.2.mlp.gate_up_proj.weight [10, 7]") == 1);
  CHECK(norm_before(config, "model.layers.2.self_attn.qkv_proj.weight") == "model.layers.2.input_layernorm.weight");
}

TEST_CASE("block: a layer outside the model is not visited") {
  for (const std::int64_t layer : {-1, 3}) {
    CHECK_THROWS_WITH(walk_of(three_layers(true), layer), Catch::Matchers::Contains("one of 3 layers"));
    CHECK_THROWS_WITH(visit_matrices(three_layers(true), layer, [](const BlockMatrix&, const auto&) {}),
                      Catch::Matchers::Contains("one of 3 layers"));
  }
}

TEST_CASE("block: named matrices are those of a layer, whatever its sizes") {
  std::vector<std::string> known, walked;
  visit_known_matrices(three_layers(true), [&](const BlockMatrix& matrix) { known.emplace_back(matrix.name); });
  visit_matrices(three_layers(true), 2,
                 [&](const BlockMatrix& matrix, const auto&) { walked.emplace_back(matrix.name); });
  CHECK(known == walked);
}
