#include "model/compressed_tensors.h"

#include <array>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "model/tensor_files.h"
#include "ops/linear.h"
#include "quant/fp8.h"
#include "support/catch.h"
#include "support/files.h"
#include "support/models.h"
#include "support/refusal.h"
#include "support/weights.h"

using namespace qrl;
using namespace qrl::model;
using nlohmann::json;
using qrl::test::refusal_of;
using qrl::test::says;
using quant::Format;

namespace {

struct Case {
  Format format;
  const char* name;  ///< in the golden file
};
constexpr std::array kCases = {Case{Format::int8, "int8"},
                               Case{Format::fp8_tensor, "fp8_tensor"},
                               Case{Format::fp8_channel, "fp8_channel"},
                               Case{Format::fp8_block128, "fp8_block128"},
                               Case{Format::int4, "int4"},
                               Case{Format::int4_int8, "int4_int8"},
                               Case{Format::int4_fp8, "int4_fp8"}};

json golden() { return json::parse(test::read_file(QRL_SOURCE_DIR "/tests/data/golden/quantized_export.json")); }

/// Returns the shapes of scripts/golden/quantized_export.py: RAGGED, or WIDE for the format that requires whole blocks.
ModelConfig config_of(Format format) {
  const bool wide = format == Format::fp8_block128;
  const test::ModelSizes ragged{40, 96, 1, 4, 2, 48, 136, 64}, whole_blocks{40, 256, 1, 8, 4, 48, 384, 64};
  return test::model_config(Family::qwen2, wide ? whole_blocks : ragged, {.qkv_bias = true});
}

/// Returns the script's formula for linear layers, and a new model's values for the rest.
Weights weights_of(const ModelConfig& config) {
  Weights weights = test::init_weights(config, 5);
  for (const WeightSpec& spec : weight_specs(config)) {
    if (spec.kind != WeightKind::linear) continue;
    const std::size_t name_length =
        spec.name.size() - std::string("model.layers.0.").size() - std::string(".weight").size();
    auto* to = weights.at(spec.name).as<float>();
    for (std::int64_t r = 0; r < spec.shape[0]; ++r) {
      for (std::int64_t c = 0; c < spec.shape[1]; ++c) {
        const auto mixed =
            static_cast<std::uint32_t>((static_cast<std::uint64_t>(r * 131 + c * 71) + name_length) * 2654435761U);
        *to++ = static_cast<float>(mixed >> 16) / 65536.0F - 0.5F;
      }
    }
  }
  return weights;
}

std::string fnv(std::string_view bytes) {
  std::uint64_t value = 0xCBF29CE484222325U;
  for (const char byte : bytes) value = (value ^ static_cast<unsigned char>(byte)) * 0x100000001B3U;
  char text[17];
  std::snprintf(text, sizeof text, "%016lx", static_cast<unsigned long>(value));
  return text;
}

/// Holds a folder that save_compressed wrote.
struct Written {
  explicit Written(const Snapshot& snapshot, std::uint64_t max_shard_bytes = kMaxShard_bytes) {
    save_compressed(dir, snapshot, max_shard_bytes);
    config = json::parse(test::read_file(dir / "config.json"));
    if (!std::filesystem::exists(dir / "model.safetensors")) return;
    const std::string file = test::read_file(dir / "model.safetensors");
    std::uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
    const json header = json::parse(file.substr(8, header_bytes));
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      const std::size_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
      tensors[name] = json::array(
          {entry["dtype"], entry["shape"], fnv(std::string_view(file).substr(8 + header_bytes + begin, end - begin))});
    }
  }

  test::TempDir temporary;
  std::filesystem::path dir = temporary.path();
  json config;
  std::map<std::string, json> tensors;  ///< dtype, shape, hash
};

Snapshot published(const ModelConfig& config, const SnapshotFormats& formats, const Weights& weights) {
  Snapshot snapshot(config, formats);
  snapshot.publish(views(weights), 0);
  return snapshot;
}

/// Returns sparse layers of 3 experts of width `inner`, except the layers of `dense`.
ModelConfig mixture_of(Format format, std::int64_t inner, std::int64_t num_layers = 1,
                       std::vector<std::int64_t> dense = {}) {
  ModelConfig config = config_of(format);
  config.family = Family::qwen3_moe;
  config.qkv_bias = false;
  config.qk_norm = true;
  config.num_hidden_layers = num_layers;
  config.num_experts = 3;
  config.num_experts_per_tok = 2;
  config.moe_intermediate_size = inner;
  config.mlp_only_layers = std::move(dense);
  return config;
}

std::map<std::string, json> groups_by_target(const json& said) {
  std::map<std::string, json> groups;
  for (const json& group : said["config_groups"]) {
    for (const std::string target : group["targets"]) groups[target] = group["weights"].value("group_size", json());
  }
  return groups;
}

}  // namespace

TEST_CASE("quantized export: writes the bytes that compressed-tensors writes") {
  const json expected = golden()["tensors"];
  std::size_t num_compared = 0;
  for (const Case& one : kCases) {
    const ModelConfig config = config_of(one.format);
    const Weights weights = weights_of(config);
    const Written written(published(config, one.format, weights));
    const std::string prefix = std::string(one.name) + "/";
    std::size_t num_quantized = 0;
    for (const auto& [name, row] : expected.items()) {
      if (!name.starts_with(prefix)) continue;
      const std::string tensor = "model.layers.0." + name.substr(prefix.size());
      INFO(name);
      REQUIRE(written.tensors.contains(tensor));
      CHECK(written.tensors.at(tensor) == row);
      ++num_quantized;
    }
    num_compared += num_quantized;
    // Also stored: embedding, three gains, three biases.
    CHECK(written.tensors.size() == num_quantized + 7);
    CHECK(written.tensors.at("model.embed_tokens.weight")[0] == "BF16");
    CHECK(written.tensors.at("model.norm.weight")[0] == "F32");
    CHECK(written.tensors.at("model.layers.0.self_attn.k_proj.bias") ==
          json::array({"F32",
                       {config.kv_size()},
                       fnv({static_cast<const char*>(weights.at("model.layers.0.self_attn.k_proj.bias").view().data),
                            static_cast<std::size_t>(config.kv_size()) * sizeof(float)})}));
  }
  CHECK(num_compared == expected.size());
}

TEST_CASE("quantized export: a folder's values equal the snapshot's") {
  for (const Case& one : kCases) {
    const ModelConfig config = config_of(one.format);
    const Snapshot snapshot = published(config, one.format, weights_of(config));
    const ops::PackedLinear& packed = snapshot.layer(0).down;
    std::vector<float> expected(static_cast<std::size_t>(packed.out * packed.in));
    std::vector<std::uint8_t> quantized(expected.size());
    ops::unpack_rows(packed, 0, packed.out, expected.data());
    ops::unpack_quantized(packed, 0, packed.out, quantized.data());
    const std::int64_t per_scale = std::max<std::int64_t>(quant::spec(one.format).scale_inputs, 0);
    std::size_t num_different = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i) / packed.in, input = static_cast<std::int64_t>(i) % packed.in;
      const float scale = ops::weight_scale(packed, per_scale == 0 ? 0 : input / per_scale, row);
      const bool is_fp8 = quant::spec(one.format).weights == quant::Element::fp8_e4m3;
      const float value =
          is_fp8 ? quant::dequantize_fp8(quantized[i]) : static_cast<float>(static_cast<std::int8_t>(quantized[i]));
      num_different += value * scale == expected[i] ? 0 : 1;
    }
    INFO(one.name);
    CHECK(num_different == 0);
  }
}

TEST_CASE("quantization_config: equals compressed-tensors' presets for whole groups") {
  const json presets = golden()["presets"];
  for (const Case& one : kCases) {
    ModelConfig config = config_of(Format::fp8_block128);
    config.head_dim = 64;  // k and v then have whole blocks of outputs as well
    const json said = json::parse(quantization_config(Snapshot(config, one.format)));
    const json& preset = presets[one.name];
    INFO(one.name << ": " << said.dump());
    CHECK(said["quant_method"] == "compressed-tensors");
    CHECK(said["format"] == preset["format"]);
    CHECK(said["ignore"] == json{"lm_head"});
    REQUIRE(said["config_groups"].size() == 1);
    const json& group = said["config_groups"]["group_0"];
    CHECK(group["targets"] == json{"Linear"});
    for (const char* part : {"weights", "input_activations"}) {
      if (preset[part].is_null()) CHECK(group[part].is_null());
      for (const auto& [key, value] : group[part].items()) CHECK(value == preset[part][key]);
      for (const auto& [key, value] : preset[part].items()) {
        if (!value.is_null() && !key.starts_with("observer")) CHECK(group[part].contains(key));
      }
    }
  }
}

TEST_CASE("quantization_config: lists modules with other groups, and layers that stay wide") {
  ModelConfig config = config_of(Format::int4);
  config.num_hidden_layers = 2;
  SnapshotFormats formats(Format::int4);
  formats.ignore = {"model.layers.1.mlp.down_proj"};
  const Written written(published(config, formats, test::init_weights(config, 5)));
  const json& said = written.config["quantization_config"];
  CHECK(said["ignore"] == json{"model.layers.1.mlp.down_proj", "lm_head"});
  CHECK(written.tensors.at("model.layers.1.mlp.down_proj.weight")[0] == "BF16");
  CHECK(written.tensors.contains("model.layers.0.mlp.down_proj.weight_packed"));
  CHECK(groups_by_target(said) == std::map<std::string, json>{{"re:.*q_proj$", nullptr},
                                                              {"re:.*k_proj$", nullptr},
                                                              {"re:.*v_proj$", nullptr},
                                                              {"re:.*gate_proj$", nullptr},
                                                              {"re:.*up_proj$", nullptr},
                                                              {"re:.*o_proj$", 64},
                                                              {"re:.*down_proj$", 8}});
}

TEST_CASE("quantized export: int4 with groups of 32, names the size and has a scale a group") {
  const ModelConfig config = config_of(Format::int4);
  SnapshotFormats formats(Format::int4_g32);
  formats.scale_rule = quant::ScaleRule::least_squares;
  const Written written(published(config, formats, test::init_weights(config, 5)));
  for (const auto& [target, group] : groups_by_target(written.config["quantization_config"])) {
    INFO(target);
    CHECK(group == (target == "re:.*down_proj$" ? 8 : 32));
  }
  CHECK(written.tensors.at("model.layers.0.self_attn.q_proj.weight_scale")[1] == json{192, 3});
}

TEST_CASE("quantized export: experts have the bytes of dense networks under their own names, routers are ignored") {
  for (const Case& one : kCases) {
    const std::int64_t inner = one.format == Format::fp8_block128 ? 768 : 136;
    const ModelConfig config = mixture_of(one.format, inner);
    const std::int64_t width = config.hidden_size;
    const Weights weights = test::init_weights(config, 5);
    const Written written(published(config, one.format, weights));
    INFO(one.name);
    CHECK(written.config["quantization_config"]["ignore"] == json{"model.layers.0.mlp.gate", "lm_head"});
    CHECK(written.config["num_experts"] == 3);
    CHECK(written.tensors.at("model.layers.0.mlp.gate.weight")[0] == "BF16");
    std::size_t num_compared = 0;
    for (std::int64_t expert = 0; expert < 3; ++expert) {
      ModelConfig dense = config_of(one.format);
      dense.intermediate_size = inner;
      Weights alone = test::init_weights(dense, 6);
      const auto give = [&](const char* module, const char* fused, std::int64_t first) {
        const base::Buffer& to = alone.at("model.layers.0.mlp." + std::string(module) + ".weight");
        const float* from = weights.at("model.layers.0.mlp.experts." + std::string(fused) + ".weight").as<float>();
        std::copy_n(from + first, to.shape().numel(), to.as<float>());
      };
      give("gate_proj", "gate_up_proj", expert * 2 * inner * width);
      give("up_proj", "gate_up_proj", (expert * 2 + 1) * inner * width);
      give("down_proj", "down_proj", expert * inner * width);
      const Written network(published(dense, one.format, alone));
      const std::string prefix = "model.layers.0.mlp.";
      for (const auto& [name, row] : network.tensors) {
        if (!name.starts_with(prefix)) continue;
        const std::string stored = prefix + "experts." + std::to_string(expert) + "." + name.substr(prefix.size());
        INFO(stored);
        REQUIRE(written.tensors.contains(stored));
        CHECK(written.tensors.at(stored) == row);
        ++num_compared;
      }
    }
    const bool is_int4 = quant::spec(one.format).weights == quant::Element::int4;
    CHECK(num_compared == (is_int4 ? 3 * 3 * 3 : 3 * 3 * 2));
    CHECK(std::ranges::count_if(written.tensors, [](const auto& tensor) {
            return tensor.first.find(".mlp.experts.") != std::string::npos;
          }) == static_cast<std::ptrdiff_t>(num_compared));
  }
}

TEST_CASE("quantized export: experts and dense layers with different groups are separate targets") {
  const ModelConfig config = mixture_of(Format::int4, 72, 2, {1});
  const json said = json::parse(quantization_config(Snapshot(config, Format::int4)));
  CHECK(groups_by_target(said) == std::map<std::string, json>{{"re:.*q_proj$", nullptr},
                                                              {"re:.*k_proj$", nullptr},
                                                              {"re:.*v_proj$", nullptr},
                                                              {"re:.*o_proj$", 64},
                                                              {R"(re:.*mlp\.gate_proj$)", nullptr},
                                                              {R"(re:.*mlp\.up_proj$)", nullptr},
                                                              {R"(re:.*mlp\.down_proj$)", 8},
                                                              {R"(re:.*mlp\.experts\.\d+\.gate_proj$)", nullptr},
                                                              {R"(re:.*mlp\.experts\.\d+\.up_proj$)", nullptr},
                                                              {R"(re:.*mlp\.experts\.\d+\.down_proj$)", nullptr}});
}

TEST_CASE("quantized export: a layer's experts have one format or stay wide together") {
  const ModelConfig config = mixture_of(Format::int8, 136, 2);
  const auto refusal = [&](std::vector<std::string> ignore) {
    SnapshotFormats formats(Format::int8);
    formats.ignore = std::move(ignore);
    return refusal_of([&] { (void)quantization_config(Snapshot(config, formats)); });
  };
  for (const char* pattern : {"model.layers.1.mlp.experts.2.*", "model.layers.1.mlp.experts.*.down_proj"}) {
    const std::string message = refusal({pattern});
    CHECK(says(message, "model.layers.1.mlp.experts"));
    CHECK(says(message, "int8 and bf16"));
  }
  CHECK(refusal({"model.layers.1.mlp.experts.*"}) == "accepted");
}

TEST_CASE("quantized export: an fp32 lm_head beside a tied bf16 embedding is a separate tensor") {
  const ModelConfig config = config_of(Format::int8);
  SnapshotFormats formats(Format::int8);
  const Written tied(published(config, formats, weights_of(config)));
  CHECK_FALSE(tied.tensors.contains("lm_head.weight"));
  CHECK(tied.config["tie_word_embeddings"] == true);
  formats.f32_lm_head = true;
  const Written apart(published(config, formats, weights_of(config)));
  CHECK(apart.tensors.at("lm_head.weight")[0] == "F32");
  CHECK(apart.tensors.at("model.embed_tokens.weight") == tied.tensors.at("model.embed_tokens.weight"));
  CHECK(apart.config["tie_word_embeddings"] == false);
}

TEST_CASE("quantized export: a large model has several files") {
  const ModelConfig config = config_of(Format::int4);
  const Weights weights = weights_of(config);
  const Written whole(published(config, Format::int4, weights));
  const Written sharded(published(config, Format::int4, weights), 20'000);
  const auto index = json::parse(test::read_file(sharded.dir / "model.safetensors.index.json"));
  CHECK(index["weight_map"].size() == whole.tensors.size());
  CHECK(read_index(sharded.dir / "model.safetensors.index.json").size() == whole.tensors.size());
}

TEST_CASE("quantized export: a ragged last block of a token's inputs is an error with the module's name") {
  ModelConfig config = config_of(Format::fp8_block128);
  config.intermediate_size = 136;
  const std::string message = refusal_of([&] { (void)quantization_config(Snapshot(config, Format::fp8_block128)); });
  CHECK(says(message, "model.layers.0.mlp.down_proj"));
  CHECK(says(message, "136"));
  const ModelConfig mixture = mixture_of(Format::fp8_block128, 136);
  CHECK(says(refusal_of([&] { (void)quantization_config(Snapshot(mixture, Format::fp8_block128)); }),
             "model.layers.0.mlp.experts.0.down_proj"));
}
