// Tests the fixed int8 profile: its computation and use against numpy, and its files against tampering.
#include "model/int8_profile.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "model/snapshot.h"
#include "support/catch.h"
#include "support/models.h"
#include "support/weights.h"

using namespace qrl;
using model::Int8Profile;
using Json = nlohmann::json;

namespace {

struct Golden {
  model::ModelConfig config;
  model::Weights weights, moved;
  model::ChannelRanges ranges;
  Json json;
};

base::Buffer buffer_of(const Json& values, const base::Shape& shape) {
  base::Buffer buffer(base::DType::f32, shape);
  const auto numbers = values.get<std::vector<float>>();
  REQUIRE(static_cast<std::int64_t>(numbers.size()) == shape.numel());
  std::ranges::copy(numbers, buffer.as<float>());
  return buffer;
}

Golden load_golden() {
  std::ifstream file(test::shipped_data() / "golden" / "quant" / "int8_profile.json");
  REQUIRE(file.good());
  Golden golden;
  golden.json = Json::parse(file);
  const Json& sizes = golden.json["sizes"];
  golden.config = test::model_config(model::Family::llama, {5, sizes["hidden_size"], 1, sizes["heads"],
                                                            sizes["kv_heads"], sizes["head_dim"], sizes["ffn"], 8});
  model::ModelConfig& config = golden.config;
  golden.weights = qrl::test::init_weights(config, 1);
  golden.moved = qrl::test::init_weights(config, 1);
  const std::string layer = "model.layers.0.";
  for (const auto& [name, values] : golden.json["matrices"].items()) {
    const std::string weight = layer + name + ".weight";
    const base::Shape shape = golden.weights.at(weight).shape();
    golden.weights[weight] = buffer_of(values["weights"], shape);
    golden.moved[weight] = buffer_of(values["moved"], shape);
  }
  for (const auto& [name, values] : golden.json["norms"].items()) {
    const std::string norm = layer + name + ".weight";
    golden.ranges[norm] = buffer_of(values["range"], {config.hidden_size});
    golden.weights[norm] = buffer_of(values["gain"], {config.hidden_size});
    golden.moved[norm] = buffer_of(values["gain"], {config.hidden_size});
  }
  return golden;
}

void check_same(const base::Buffer& got, const Json& want, double relative) {
  const auto numbers = want.get<std::vector<double>>();
  REQUIRE(got.shape().numel() == static_cast<std::int64_t>(numbers.size()));
  for (std::size_t i = 0; i < numbers.size(); ++i) CHECK(test::close(got.as<float>()[i], numbers[i], 0, relative));
}

const ops::PackedLinear& matrix_of(const model::Snapshot& snapshot, const std::string& name, std::int64_t& first_row) {
  const model::LayerSnapshot& layer = snapshot.layer(0);
  const model::ModelConfig& config = snapshot.config();
  first_row = name.find("k_proj") != std::string::npos    ? config.q_size()
              : name.find("v_proj") != std::string::npos  ? config.q_size() + config.kv_size()
              : name.find("up_proj") != std::string::npos ? config.intermediate_size
                                                          : 0;
  return name.find("o_proj") != std::string::npos      ? layer.o
         : name.find("down_proj") != std::string::npos ? layer.down
         : name.find("mlp") != std::string::npos       ? layer.gate_up
                                                       : layer.qkv;
}

}  // namespace

TEST_CASE("int8 profile: factors, scales and rescaled weights equal numpy's") {
  const Golden golden = load_golden();
  auto profile = std::make_shared<Int8Profile>(model::make_int8_profile(golden.config, golden.weights, golden.ranges));
  model::Snapshot snapshot(golden.config, quant::Format::int8);
  snapshot.use_profile(profile);
  snapshot.publish(model::views(golden.moved), 0);
  std::int64_t clamped = 0;
  for (const auto& [name, values] : golden.json["matrices"].items()) {
    CAPTURE(name);
    const std::string weight = "model.layers.0." + name + ".weight";
    const base::Buffer& scale = profile->tensors.at(model::scale_name(weight));
    check_same(scale, values["scale"], 0x1p-22);  // a product and a division, rounded
    std::int64_t first_row = 0;
    const ops::PackedLinear& packed = matrix_of(snapshot, name, first_row);
    const std::int64_t rows = scale.shape()[0], width = packed.in;
    std::vector<float> decoded(static_cast<std::size_t>(rows * width));
    ops::unpack_rows(packed, first_row, rows, decoded.data());
    const auto codes = values["codes"].get<std::vector<int>>();
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const float step = scale.as<float>()[i / static_cast<std::size_t>(width)];
      CHECK(std::lround(decoded[i] / step) == codes[i]);
      clamped += std::abs(codes[i]) == 127 ? 1 : 0;
    }
  }
  CHECK(clamped > 40);  // scales stayed while the weights grew: more than one per row is at the end of the range
  for (const auto& [name, values] : golden.json["norms"].items()) {
    const std::string norm = "model.layers.0." + name + ".weight";
    check_same(profile->tensors.at(model::smoothing_name(norm)), values["smoothing"], 0x1p-22);
    const model::LayerSnapshot& layer = snapshot.layer(0);
    check_same(name == "input_layernorm" ? layer.input_norm_D : layer.post_norm_D, values["folded"], 0x1p-21);
  }
  // Without the profile the results are the usual ones.
  snapshot.use_profile(nullptr);
  snapshot.publish(model::views(golden.moved), 1);
  CHECK(snapshot.layer(0).input_norm_D.as<float>()[0] ==
        golden.moved.at("model.layers.0.input_layernorm.weight").as<float>()[0]);
  CHECK(snapshot.layer(0).qkv.scales.as<float>()[0] !=
        profile->tensors.at("model.layers.0.self_attn.q_proj.weight.scale").as<float>()[0]);
}

TEST_CASE("int8 profile: an exempt layer behind a smoothed norm has weights that undo it") {
  const Golden golden = load_golden();
  model::SnapshotFormats formats(quant::Format::int8);
  formats.ignore = {"*.self_attn.[qkv]_proj"};
  model::Snapshot snapshot(golden.config, formats);
  const auto profile =
      std::make_shared<const Int8Profile>(model::make_int8_profile(golden.config, golden.weights, golden.ranges));
  snapshot.use_profile(profile);
  snapshot.publish(model::views(golden.weights), 0);
  const base::Buffer& q = golden.weights.at("model.layers.0.self_attn.q_proj.weight");
  std::vector<float> decoded(static_cast<std::size_t>(q.shape().numel()));
  ops::unpack_rows(snapshot.layer(0).qkv, 0, q.shape()[0], decoded.data());
  const float* smoothing = profile->tensors.at("model.layers.0.input_layernorm.weight.smoothing").as<float>();
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    CHECK(decoded[i] == base::to_float(base::to_bf16(q.as<float>()[i] * smoothing[i % 8])));
  }
}

TEST_CASE("int8 profile: files round-trip, and others are refused by name") {
  const test::TempDir dir;
  const Golden golden = load_golden();
  Int8Profile profile = model::make_int8_profile(golden.config, golden.weights, golden.ranges);
  profile.settings_hash = "of the settings";
  CHECK(profile.model_hash == model::weights_hash(golden.config, golden.weights));
  CHECK(profile.model_hash != model::weights_hash(golden.config, golden.moved));
  model::save_int8_profile(dir / "profile.safetensors", profile);
  const Int8Profile back = model::load_int8_profile(dir / "profile.safetensors", golden.config);
  CHECK(back.model_hash == profile.model_hash);
  CHECK(back.settings_hash == "of the settings");
  REQUIRE(back.tensors.size() == 7 + 2);
  for (const auto& [name, buffer] : profile.tensors) {
    CHECK(
        std::equal(buffer.as<float>(), buffer.as<float>() + buffer.shape().numel(), back.tensors.at(name).as<float>()));
  }
  model::ModelConfig wider = golden.config;
  wider.intermediate_size += 1;
  CHECK_THROWS_WITH(model::load_int8_profile(dir / "profile.safetensors", wider),
                    Catch::Matchers::Contains("a different model"));
  profile.tensors.begin()->second.as<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  model::save_int8_profile(dir / "nan.safetensors", profile);
  CHECK_THROWS_WITH(model::load_int8_profile(dir / "nan.safetensors", golden.config),
                    Catch::Matchers::Contains("finite"));
  model::save_hf(dir / "hf", golden.config, model::views(golden.weights));
  CHECK_THROWS_WITH(model::load_int8_profile(dir / "hf/model.safetensors", golden.config),
                    Catch::Matchers::Contains("int8 profile"));
}
