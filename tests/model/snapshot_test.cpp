#include "model/snapshot.h"

#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/threads.h"
#include "support/catch.h"
#include "support/models.h"
#include "support/refusal.h"
#include "support/weights.h"

using namespace qrl;
using namespace qrl::model;
using qrl::test::init_weights;
using quant::Format;

namespace {

/// Odd sizes: q, k, v share a panel of 64 rows at their boundaries, and so do gate and up.
ModelConfig small_config(Family family, bool tied) {
  return test::model_config(family, {71, 24, 2, 4, 2, 10, 37}, test::parts_of(family, tied));
}

/// Returns fresh weights whose norms and biases also differ from each other.
Weights make_weights(const ModelConfig& config, std::uint64_t seed) {
  Weights weights = init_weights(config, seed);
  float next = 0.5F;
  for (auto& [name, buffer] : weights) {
    if (buffer.shape().rank() != 1) continue;
    for (std::int64_t i = 0; i < buffer.view().numel(); ++i) buffer.as<float>()[i] = (next += 0.125F);
  }
  return weights;
}

std::vector<float> values(const base::Buffer& buffer) {
  return {buffer.as<float>(), buffer.as<float>() + buffer.view().numel()};
}

/// Returns a weight after rounding by the format's reference codec, row by row.
std::vector<float> rounded(const base::Buffer& weight, Format format) {
  std::vector<float> out = values(weight);
  const auto width = static_cast<std::size_t>(weight.shape()[1]);
  if (format == Format::bf16) {
    for (float& value : out) value = base::to_float(base::to_bf16(value));
  }
  if (format == Format::int8) {
    std::vector<std::int8_t> codes(width);
    for (std::size_t row = 0; row < out.size(); row += width) {
      const auto span = std::span(out).subspan(row, width);
      const float scale = quant::quantize_int8(span, codes);
      quant::dequantize_int8(codes, scale, span);
    }
  }
  return out;
}

std::vector<float> unpacked(const ops::PackedLinear& packed, std::int64_t first_row, std::int64_t rows) {
  std::vector<float> out(static_cast<std::size_t>(rows * packed.in));
  ops::unpack_rows(packed, first_row, rows, out.data());
  return out;
}

std::vector<float> bias_rows(const ops::PackedLinear& packed, std::int64_t first_row, std::int64_t rows) {
  const float* bias = packed.bias.as<float>() + first_row;
  return {bias, bias + rows};
}

}  // namespace

TEST_CASE("int4: groups of 64 or 32 inputs, must divide every width") {
  const ModelConfig config =
      test::model_config(Family::qwen2, test::ModelSizes{40, 96, 1, 4, 2, 48, 136, 64}, {.qkv_bias = true});
  CHECK(test::refusal_of([&] { check_formats(config, Format::int4); }) == "accepted");
  CHECK(test::says(test::refusal_of([&] { check_formats(config, Format::int4_g64); }),
                   "64 with 96 inputs of model.layers.0.self_attn.q_proj"));
  SnapshotFormats formats(Format::int4_int8_g32);
  CHECK(test::says(test::refusal_of([&] { check_formats(config, formats); }),
                   "32 with 136 inputs of model.layers.0.mlp.down_proj"));
  formats.ignore = {"down_proj"};
  CHECK(test::refusal_of([&] { check_formats(config, formats); }) == "accepted");
}

TEST_CASE("snapshot: holds every weight, in its place, in its format") {
  for (const Family family : {Family::qwen3, Family::qwen2, Family::llama}) {
    for (const Format format : {Format::f32, Format::bf16, Format::int8}) {
      const bool tied = family != Family::llama;
      const ModelConfig config = small_config(family, tied);
      const Weights weights = make_weights(config, 3);
      Snapshot snapshot(config, format);
      CHECK(snapshot.version() == -1);
      snapshot.publish(views(weights), 5);
      CHECK(snapshot.version() == 5);
      INFO(static_cast<int>(family) << " " << quant::name(format));

      const Format wide = format == Format::f32 ? Format::f32 : Format::bf16;
      const base::Buffer& embedding = weights.at("model.embed_tokens.weight");
      const auto table = rounded(embedding, wide);
      for (std::size_t i = 0; i < table.size(); ++i) {
        const float got = wide == Format::f32 ? snapshot.embedding_VD().as<float>()[i]
                                              : base::to_float(snapshot.embedding_VD().as<base::bf16>()[i]);
        REQUIRE(got == table[i]);
      }
      CHECK(snapshot.lm_head().format == wide);
      CHECK(unpacked(snapshot.lm_head(), 0, 71) == rounded(tied ? embedding : weights.at("lm_head.weight"), wide));
      CHECK(values(snapshot.final_norm_D()) == values(weights.at("model.norm.weight")));
      for (std::int64_t idx = 0; idx < 2; ++idx) {
        const LayerSnapshot& layer = snapshot.layer(idx);
        const std::string prefix = "model.layers." + std::to_string(idx) + ".";
        const auto want = [&](const std::string& name) {
          return rounded(weights.at(prefix + name + ".weight"), format);
        };
        CHECK(layer.qkv.format == format);
        CHECK(unpacked(layer.qkv, 0, 40) == want("self_attn.q_proj"));
        CHECK(unpacked(layer.qkv, 40, 20) == want("self_attn.k_proj"));
        CHECK(unpacked(layer.qkv, 60, 20) == want("self_attn.v_proj"));
        CHECK(unpacked(layer.o, 0, 24) == want("self_attn.o_proj"));
        CHECK(unpacked(layer.gate_up, 0, 37) == want("mlp.gate_proj"));
        CHECK(unpacked(layer.gate_up, 37, 37) == want("mlp.up_proj"));
        CHECK(unpacked(layer.down, 0, 24) == want("mlp.down_proj"));
        CHECK(values(layer.input_norm_D) == values(weights.at(prefix + "input_layernorm.weight")));
        CHECK(values(layer.post_norm_D) == values(weights.at(prefix + "post_attention_layernorm.weight")));
        CHECK(layer.q_norm_E.empty() == (family != Family::qwen3));
        if (family == Family::qwen3) {
          CHECK(values(layer.q_norm_E) == values(weights.at(prefix + "self_attn.q_norm.weight")));
          CHECK(values(layer.k_norm_E) == values(weights.at(prefix + "self_attn.k_norm.weight")));
        }
        CHECK(layer.qkv.bias.empty() == (family == Family::qwen3));
        CHECK(layer.o.bias.empty() == (family != Family::llama));
        if (family == Family::llama)
          CHECK(bias_rows(layer.o, 0, 24) == values(weights.at(prefix + "self_attn.o_proj.bias")));
        if (family != Family::qwen3) {
          CHECK(bias_rows(layer.qkv, 0, 40) == values(weights.at(prefix + "self_attn.q_proj.bias")));
          CHECK(bias_rows(layer.qkv, 40, 20) == values(weights.at(prefix + "self_attn.k_proj.bias")));
          CHECK(bias_rows(layer.qkv, 60, 20) == values(weights.at(prefix + "self_attn.v_proj.bias")));
        }
      }
    }
  }
}

TEST_CASE("int8 lm_head: holds the codec's values of its rows, leaves the embedding, changes no layer") {
  for (const bool tied : {false, true}) {
    const ModelConfig config = small_config(Family::qwen3, tied);
    const Weights weights = make_weights(config, 3);
    SnapshotFormats formats(Format::int4);
    formats.int8_lm_head = true;
    Snapshot snapshot(config, formats), wide(config, Format::int4);
    snapshot.publish(views(weights), 5);
    wide.publish(views(weights), 5);
    const base::Buffer& embedding = weights.at("model.embed_tokens.weight");
    CHECK(unpacked(snapshot.lm_head(), 0, 71) ==
          rounded(tied ? embedding : weights.at("lm_head.weight"), Format::int8));
    CHECK(snapshot.embedding_VD().view().dtype == base::DType::bf16);
    CHECK(unpacked(snapshot.layer(1).qkv, 0, 80) == unpacked(wide.layer(1).qkv, 0, 80));
    CHECK(snapshot.num_bytes() < wide.num_bytes());
    CHECK(snapshot.format_errors(views(weights))[0].format == Format::int8);
    CHECK(snapshot.tensors().back().what.starts_with("int8 [71, 24], scales"));
  }
}

TEST_CASE("publish: a second one rewrites the same memory, and nothing of the older policy stays") {
  const ModelConfig config = small_config(Family::qwen2, true);
  const Weights first = make_weights(config, 1), second = make_weights(config, 2);
  Snapshot reused(config, Format::int8), fresh(config, Format::int8);
  reused.publish(views(first), 1);
  const void* panels = reused.layer(1).qkv.panels.view().data;
  const auto bytes = [](const Snapshot& snapshot) {
    std::string all;
    const auto add = [&](const base::Buffer& buffer) {
      all.append(static_cast<const char*>(buffer.view().data), buffer.num_bytes());
    };
    add(snapshot.embedding_VD());
    for (const ops::PackedLinear* linear :
         {&snapshot.layer(0).qkv, &snapshot.layer(1).down, &snapshot.layer(1).gate_up}) {
      add(linear->panels), add(linear->scales), add(linear->column_sums);
    }
    return all;
  };
  const std::string before = bytes(reused);
  reused.publish(views(second), 2);
  fresh.publish(views(second), 2);
  CHECK(reused.layer(1).qkv.panels.view().data == panels);
  CHECK(bytes(reused) != before);
  CHECK(bytes(reused) == bytes(fresh));

  const int threads = base::num_threads();
  for (const int count : {1, 3}) {
    base::set_num_threads(count);
    Snapshot other(config, Format::int8);
    other.publish(views(second), 2);
    CHECK(bytes(other) == bytes(fresh));
  }
  base::set_num_threads(threads);
}

TEST_CASE("snapshot: a non-finite weight is named wherever it is") {
  const ModelConfig config = small_config(Family::qwen2, false);
  for (const Format format : {Format::f32, Format::bf16, Format::int8}) {
    for (const WeightSpec& spec : weight_specs(config)) {
      for (const float value : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
        Weights weights = make_weights(config, 3);
        base::Buffer& broken = weights.at(spec.name);
        broken.as<float>()[broken.view().numel() - 1] = value;
        Snapshot snapshot(config, format);
        snapshot.publish(views(make_weights(config, 3)), 4);
        INFO(spec.name);
        const std::int64_t version = value < 0 ? 0 : 5;  // loaded, or trained
        try {
          snapshot.publish(views(weights), version);
          FAIL_CHECK("published");
        } catch (const base::Error& error) {
          CHECK(error.kind() == (version == 0 ? base::ErrorKind::input : base::ErrorKind::guard));
          CHECK(std::string(error.what()).find(spec.name) != std::string::npos);
        }
        CHECK(snapshot.version() == -1);  // its contents are no policy
      }
    }
  }
}

TEST_CASE("snapshot: masters of another model are an error before anything changes") {
  const ModelConfig config = small_config(Family::qwen3, true);
  const Weights weights = make_weights(config, 3);
  Snapshot snapshot(config, Format::bf16);
  snapshot.publish(views(weights), 1);
  WeightViews missing = views(weights);
  missing.erase("model.norm.weight");
  CHECK_THROWS_AS(snapshot.publish(missing, 2), base::Error);
  WeightViews misshaped = views(weights);
  misshaped["model.norm.weight"].shape = base::Shape{23};
  CHECK_THROWS_AS(snapshot.publish(misshaped, 2), base::Error);
  CHECK(snapshot.version() == 1);
}

TEST_CASE("snapshot: describes each tensor and counts its memory") {
  const ModelConfig config = small_config(Family::qwen2, true);
  const Snapshot wide(config, Format::f32), low(config, Format::int8);
  CHECK(low.num_bytes() < wide.num_bytes());
  const auto tensors = low.tensors();
  CHECK(tensors.size() == 3 + 2 * 6);
  CHECK(tensors[0].what == "BF16 [71, 24]");
  CHECK(tensors[2].name == "layers.0.qkv");
  CHECK(tensors[2].what == "int8 [80, 24], scales [1, 80] F32, bias F32");
  CHECK(tensors[2].data == low.layer(0).qkv.panels.view().data);
  CHECK(std::ranges::count_if(tensors, [](const auto& tensor) { return tensor.is_gain; }) == 5);
  CHECK(tensors.back().what == "bf16 [71, 24]");
}

TEST_CASE("snapshot: reports each weight's distance from its master") {
  const ModelConfig config = small_config(Family::qwen2, true);
  const Weights weights = make_weights(config, 3);
  Snapshot snapshot(config, Format::int8);
  snapshot.publish(views(weights), 1);
  const auto errors = snapshot.format_errors(views(weights));
  REQUIRE(errors.size() == 1 + 2 * 7);
  for (const model::WeightError& weight : errors) {
    CAPTURE(weight.weight);
    const base::View master = views(weights).at(weight.weight);
    const std::span<const float> values(master.as<float>(), static_cast<std::size_t>(master.numel()));
    std::vector<float> rounded(values.size());
    quant::round_weights(weight.format, values, master.shape[1], rounded);
    const quant::FormatError expected = quant::format_error(values, rounded);
    CHECK(weight.error.max_abs == expected.max_abs);
    CHECK(weight.error.cosine == expected.cosine);
    CHECK(expected.rms > 0);
  }
  CHECK(errors[0].format == Format::bf16);
  CHECK(errors[3].weight == "model.layers.0.self_attn.v_proj.weight");
  CHECK(errors[3].format == Format::int8);
}

TEST_CASE("quant.rollout.ignore: named modules stay bf16, each pattern must match, and not all may be named") {
  const ModelConfig config = small_config(Family::qwen2, true);
  model::SnapshotFormats formats(Format::int8);
  formats.ignore = {"lm_head", "down_proj", "model.layers.0.self_attn.[qkv]_proj"};
  formats.f32_lm_head = true;
  const Snapshot snapshot(config, formats);
  CHECK(has_exempt_layers(snapshot));
  CHECK(snapshot.layer(0).qkv.format == Format::bf16);
  CHECK(snapshot.layer(1).qkv.format == Format::int8);
  CHECK(snapshot.layer(1).down.format == Format::bf16);
  CHECK(snapshot.layer(1).o.format == Format::int8);
  CHECK(snapshot.lm_head().format == Format::f32);
  formats.f32_lm_head = false;
  formats.int8_lm_head = true;
  CHECK(Snapshot(config, formats).lm_head().format == Format::int8);
  formats.ignore = {"dwn_proj"};
  CHECK_THROWS_WITH(Snapshot(config, formats), Catch::Matchers::Contains("\"dwn_proj\""));
  formats.ignore = {"k_proj"};
  CHECK_THROWS_WITH(Snapshot(config, formats), Catch::Matchers::Contains("share a matrix"));
  formats.ignore = {"*_proj"};
  CHECK_THROWS_WITH(Snapshot(config, formats), Catch::Matchers::Contains("weights: bf16"));
  // These are never low-bit, but ignore lists for other engines name them; that must not exempt any layer.
  for (const char* pattern : {"lm_head", "embed_tokens", "model.embed_tokens"}) {
    formats.ignore = {pattern};
    CHECK_FALSE(has_exempt_layers(Snapshot(config, formats)));
  }
}
