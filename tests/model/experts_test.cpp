// Tests a mixture of experts in a snapshot: each expert's values, formats, errors, int8 profile; adapters leave them
// out.
#include <cmath>
#include <limits>

#include "base/bf16.h"
#include "model/adapter.h"
#include "model/snapshot.h"
#include "quant/format.h"
#include "support/catch.h"
#include "support/models.h"
#include "support/refusal.h"
#include "support/weights.h"

using namespace qrl;
using namespace qrl::model;
using qrl::test::refusal_of;
using qrl::test::says;
using quant::Format;

namespace {

constexpr std::int64_t kExperts = 5, kInner = 39;

/// Returns three layers, the middle one dense. Gate and up of an expert share a panel, and a block of 128 inputs ends
/// within a row.
ModelConfig mixture_config() {
  ModelConfig config =
      test::model_config(Family::qwen3_moe, {71, 150, 3, 4, 2, 10, 37}, test::parts_of(Family::qwen3_moe, true));
  config.num_experts = kExperts;
  config.num_experts_per_tok = 2;
  config.moe_intermediate_size = kInner;
  config.mlp_only_layers = {1};
  return config;
}

std::span<const float> expert_of(const Weights& weights, const std::string& tensor, std::int64_t first_row,
                                 std::int64_t rows) {
  const base::Buffer& all = weights.at(tensor);
  const std::int64_t width = all.shape()[2];
  return {all.as<float>() + first_row * width, static_cast<std::size_t>(rows * width)};
}

std::vector<float> unpacked_rows(const ops::PackedLinear& packed, std::int64_t first_row, std::int64_t rows) {
  std::vector<float> out(static_cast<std::size_t>(rows * packed.in));
  ops::unpack_rows(packed, first_row, rows, out.data());
  return out;
}

/// Returns what the reference codec makes of one module's weights.
std::vector<float> rounded_by_codec(Format format, std::span<const float> weights, std::int64_t inputs) {
  std::vector<float> out(weights.size());
  quant::round_weights(format, weights, inputs, out);
  return out;
}

}  // namespace

TEST_CASE("MoE snapshot: holds every expert's modules, each rounded alone, and a wide router") {
  const ModelConfig config = mixture_config();
  const Weights weights = test::init_weights(config, 4);
  for (int i = 0; i < quant::kNumFormats; ++i) {
    const auto format = static_cast<Format>(i);
    Snapshot snapshot(config, format);
    snapshot.publish(views(weights), 0);
    for (const std::int64_t idx : {0, 2}) {
      const LayerSnapshot& layer = snapshot.layer(idx);
      const std::string mlp = layer_prefix(idx) + "mlp.";
      REQUIRE(layer.expert_gate_up.size() == kExperts);
      REQUIRE(layer.expert_down.size() == kExperts);
      CHECK(layer.gate_up.panels.empty());
      for (std::int64_t expert = 0; expert < kExperts; ++expert) {
        CAPTURE(quant::name(format), idx, expert);
        const ops::PackedLinear& gate_up = layer.expert_gate_up[static_cast<std::size_t>(expert)];
        const ops::PackedLinear& down = layer.expert_down[static_cast<std::size_t>(expert)];
        const std::string fused = mlp + "experts.gate_up_proj.weight";
        const std::int64_t first = expert * 2 * kInner;
        CHECK(unpacked_rows(gate_up, 0, kInner) ==
              rounded_by_codec(format, expert_of(weights, fused, first, kInner), 150));
        CHECK(unpacked_rows(gate_up, kInner, kInner) ==
              rounded_by_codec(format, expert_of(weights, fused, first + kInner, kInner), 150));
        CHECK(
            unpacked_rows(down, 0, 150) ==
            rounded_by_codec(format, expert_of(weights, mlp + "experts.down_proj.weight", expert * 150, 150), kInner));
      }
      const Format wide = format == Format::f32 ? Format::f32 : Format::bf16;
      const base::Buffer& router = weights.at(mlp + "gate.weight");
      CHECK(layer.router.format == wide);
      CHECK(unpacked_rows(layer.router, 0, kExperts) ==
            rounded_by_codec(wide, {router.as<float>(), static_cast<std::size_t>(kExperts * 150)}, 150));
    }
    CHECK(snapshot.layer(1).expert_down.empty());
    CHECK(snapshot.layer(1).gate_up.out == 2 * 37);
  }
}

TEST_CASE("MoE snapshot: a non-finite weight is named as its file stores it") {
  const ModelConfig config = mixture_config();
  Snapshot snapshot(config, Format::int8);
  for (const WeightSpec& spec : weight_specs(config)) {
    for (const StoredPart& part : spec.parts) {
      Weights weights = test::init_weights(config, 4);
      weights.at(spec.name).as<float>()[part.first + part.shape.numel() - 1] = std::numeric_limits<float>::quiet_NaN();
      CHECK(says(refusal_of([&] { snapshot.publish(views(weights), 0); }), part.name));
      CHECK(snapshot.version() == -1);
    }
  }
}

TEST_CASE("MoE snapshot: lists a layer's experts once, counts all, with one error per matrix over all of them") {
  const ModelConfig config = mixture_config();
  const Weights weights = test::init_weights(config, 4);
  SnapshotFormats formats(Format::int8);
  formats.ignore = {"model.layers.2.mlp.experts.3.*"};
  Snapshot snapshot(config, formats), fewer = [&] {
    ModelConfig four = config;
    four.num_experts = kExperts - 1;
    return Snapshot(four, Format::int8);
  }();
  snapshot.publish(views(weights), 0);
  CHECK(snapshot.num_bytes() > fewer.num_bytes() + 2 * (3 * kInner * 150));
  std::vector<std::string> listed;
  for (const SnapshotTensor& tensor : snapshot.tensors()) {
    if (tensor.name.find("experts") != std::string::npos) listed.push_back(tensor.name + ": " + tensor.what);
  }
  REQUIRE(listed.size() == 4);
  CHECK(listed[0] == "layers.0.experts.gate_up: int8 [78, 150] × 5, scales [1, 78] F32");
  CHECK(listed[3] == "layers.2.experts.down: int8 [150, 39] × 4, scales [1, 150] F32; bf16 [150, 39]");
  std::size_t num_errors = 0;
  for (const WeightError& error : snapshot.format_errors(views(weights))) {
    if (error.weight.find(".experts.") == std::string::npos) continue;
    ++num_errors;
    CAPTURE(error.weight);
    CHECK(error.format == Format::int8);
    const base::Buffer& master = weights.at(error.weight);
    const std::int64_t width = master.shape()[2], size = master.shape()[1] * width;
    quant::FormatErrorSums sums;
    for (std::int64_t expert = 0; expert < kExperts; ++expert) {
      if (error.weight.starts_with("model.layers.2.") && expert == 3) continue;  // exempt
      const std::span<const float> values(master.as<float>() + expert * size, static_cast<std::size_t>(size));
      sums.add(values, rounded_by_codec(Format::int8, values, width));
    }
    CHECK(error.error.max_abs == sums.error().max_abs);
    CHECK(error.error.cosine == Approx(sums.error().cosine).epsilon(1e-12));
    CHECK(error.error.rms > 0);
  }
  CHECK(num_errors == 4);
}

TEST_CASE("MoE snapshot: experts are exempt individually, gate with up, and the router is wide for any pattern") {
  const ModelConfig config = mixture_config();
  SnapshotFormats formats(Format::int8);
  formats.ignore = {"model.layers.0.mlp.experts.3.*", "down_proj", "gate", "*.mlp.gate"};
  CHECK(refusal_of([&] { check_formats(config, formats); }) == "accepted");
  const Snapshot snapshot(config, formats);
  CHECK(has_exempt_layers(snapshot));
  for (std::size_t expert = 0; expert < kExperts; ++expert) {
    CHECK(snapshot.layer_form(0).expert_gate_up[expert].format == (expert == 3 ? Format::bf16 : Format::int8));
    CHECK(snapshot.layer_form(2).expert_gate_up[expert].format == Format::int8);
    CHECK(snapshot.layer_form(0).expert_down[expert].format == Format::bf16);
  }
  CHECK(snapshot.layer_form(0).router.format == Format::bf16);
  CHECK(snapshot.layer_form(1).down.format == Format::bf16);
  formats.ignore = {"mlp.gate"};  // neither a whole name nor a last part
  CHECK(says(refusal_of([&] { check_formats(config, formats); }), "\"mlp.gate\""));
  formats.ignore = {"model.layers.2.mlp.experts.4.up_proj"};
  CHECK(
      says(refusal_of([&] { check_formats(config, formats); }),
           "all or none of model.layers.2.mlp.experts.4.gate_proj, model.layers.2.mlp.experts.4.up_proj, which share"));
  formats.ignore = {"gate"};
  CHECK_FALSE(has_exempt_layers(Snapshot(config, formats)));
  formats.ignore = {"*_proj", "gate"};
  CHECK(says(refusal_of([&] { check_formats(config, formats); }), "weights: bf16"));
}

TEST_CASE("MoE rotation: must fit the experts' inputs, unless ignored") {
  ModelConfig config = mixture_config();
  config.hidden_size = 64;
  config.head_dim = 16;
  config.intermediate_size = 128;
  SnapshotFormats formats(Format::int8);
  formats.rotation = {32};
  CHECK(
      says(refusal_of([&] { check_formats(config, formats); }), "39 inputs of model.layers.0.mlp.experts.0.down_proj"));
  formats.ignore = {"*.experts.*.down_proj"};
  CHECK(refusal_of([&] { check_formats(config, formats); }) == "accepted");
  const Snapshot snapshot(config, formats);
  CHECK(snapshot.layer_form(0).expert_gate_up[0].rotation == formats.rotation);
  CHECK(snapshot.layer_form(0).router.rotation == quant::Rotation());
}

TEST_CASE("MoE int8 profile: has a scale for each expert's row, and factors for the router behind the same norm") {
  const ModelConfig config = mixture_config();
  const Weights weights = test::init_weights(config, 4), moved = test::init_weights(config, 5);
  ChannelRanges ranges;
  for (std::int64_t idx = 0; idx < 3; ++idx) {
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) {
      base::Buffer range(base::DType::f32, {150});
      for (std::int64_t i = 0; i < 150; ++i) range.as<float>()[i] = 0.5F + 0.03F * static_cast<float>((i * 7) % 31);
      ranges.emplace(layer_prefix(idx) + norm + ".weight", std::move(range));
    }
  }
  const auto profile = std::make_shared<const Int8Profile>(make_int8_profile(config, weights, ranges));
  Snapshot snapshot(config, Format::int8);
  snapshot.use_profile(profile);
  snapshot.publish(views(moved), 0);
  const std::string mlp = "model.layers.2.mlp.";
  const base::Buffer& all = weights.at(mlp + "experts.gate_up_proj.weight");
  const base::Buffer& factors = profile->tensors.at("model.layers.2.post_attention_layernorm.weight.smoothing");
  const base::Buffer& scales = profile->tensors.at(mlp + "experts.gate_up_proj.weight.scale");
  REQUIRE(scales.shape() == base::Shape{kExperts * 2 * kInner});
  for (std::int64_t i = 0; i < 150; ++i) {  // of the weights that are quantized, not of the router's
    float largest = 0;
    for (std::int64_t row = 0; row < kExperts * 2 * kInner; ++row)
      largest = std::max(largest, std::fabs(all.as<float>()[row * 150 + i]));
    const float range = ranges.at("model.layers.2.post_attention_layernorm.weight").as<float>()[i];
    CHECK(test::close(factors.as<float>()[i], std::sqrt(range / largest), 0, 0x1p-22));
  }
  for (std::int64_t expert = 0; expert < kExperts; ++expert) {
    const std::vector<float> got =
        unpacked_rows(snapshot.layer(2).expert_gate_up[static_cast<std::size_t>(expert)], 0, 2 * kInner);
    for (std::int64_t row = 0; row < 2 * kInner; ++row) {
      const std::int64_t at = expert * 2 * kInner + row;
      const float scale = scales.as<float>()[at];
      const float* master = moved.at(mlp + "experts.gate_up_proj.weight").as<float>() + at * 150;
      for (std::int64_t i = 0; i < 150; ++i) {
        const float steps = std::clamp(std::nearbyint(master[i] * factors.as<float>()[i] / scale), -127.0F, 127.0F);
        REQUIRE(got[static_cast<std::size_t>(row * 150 + i)] == steps * scale);
      }
    }
  }
  const std::vector<float> router = unpacked_rows(snapshot.layer(2).router, 0, kExperts);
  const float* master = moved.at(mlp + "gate.weight").as<float>();
  for (std::size_t i = 0; i < router.size(); ++i)
    REQUIRE(router[i] == base::to_float(base::to_bf16(master[i] * factors.as<float>()[i % 150])));
}

TEST_CASE("MoE adapters: refused in one error on experts or routers, created on attention") {
  const ModelConfig config = mixture_config();
  LoraConfig lora;
  lora.rank = 2;
  for (const std::vector<std::string>& targets :
       {std::vector<std::string>{}, {"q_proj", "down_proj"}, {"gate"}, {"model.layers.2.mlp.experts.3.up_proj"}}) {
    lora.target_modules = targets;
    CHECK(says(refusal_of([&] { check_lora(config, lora); }), "experts have no kernels for GPUs and no adapters yet"));
  }
  lora.target_modules = {"q_proj", "v_proj", "o_proj", "model.layers.1.mlp.down_proj"};
  CHECK(refusal_of([&] { check_lora(config, lora); }) == "accepted");
  CHECK(adapter_specs(config, lora).size() == (3 * 3 + 1) * 2);
}
