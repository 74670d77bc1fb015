// Tests what is written of a model with gated DeltaNet layers: low-bit exports, adapters, and what noise acts on.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "model/compressed_tensors.h"
#include "model/gguf_export.h"
#include "model/peft.h"
#include "model/snapshot.h"
#include "state/safetensors.h"
#include "support/catch.h"
#include "support/files.h"
#include "support/models.h"
#include "support/refusal.h"
#include "support/weights.h"

namespace qrl::model {

namespace {

struct DeltaModel {
  ModelConfig config = test::with_flags(
      test::model_config(Family::qwen3_5, {40, 64, 2, 4, 2, 16, 96, 64}, {.qk_norm = true}), Family::qwen3_5);
  Weights weights = test::init_weights(config, 5);
  DeltaModel() {
    for (const WeightSpec& spec : weight_specs(config)) {
      if (!is_vector(spec.kind)) continue;
      for (std::int64_t i = 0; i < spec.shape.numel(); ++i)
        weights.at(spec.name).as<float>()[i] += 0.125F * static_cast<float>(i % 5);
    }
  }
};

}  // namespace

TEST_CASE("compressed-tensors: a DeltaNet's projections are quantized, and b, a and small parameters are not") {
  const DeltaModel model;
  Snapshot snapshot(model.config, quant::Format::int8);
  snapshot.publish(views(model.weights), 0);
  const test::TempDir dir;
  save_compressed(dir.path(), snapshot);
  const state::SafetensorsFile file(dir / "model.safetensors");
  const std::string layer = "model.layers.0.linear_attn.";
  for (const char* module : {"in_proj_qkv", "in_proj_z", "out_proj"}) {
    CHECK(file.entry(layer + module + ".weight").dtype == base::DType::i8);
    CHECK(file.tensors().contains(layer + module + ".weight_scale"));
  }
  for (const char* module : {"in_proj_b", "in_proj_a"})
    CHECK(file.entry(layer + module + ".weight").dtype == base::DType::bf16);
  std::size_t num_vectors = 0;
  for (const WeightSpec& spec : weight_specs(model.config)) {
    if (!is_vector(spec.kind) || spec.kind == WeightKind::bias) continue;
    INFO(spec.name);
    CHECK(file.entry(spec.name).shape == spec.shape);
    const base::Buffer stored = file.read_f32(spec.name);
    const auto* want = model.weights.at(spec.name).as<float>();
    // Gains of 1 + w are stored as w; the sum and its difference are rounded.
    CHECK(std::equal(want, want + spec.shape.numel(), stored.as<float>(),
                     [](float a, float b) { return std::fabs(a - b) <= 0x1p-22F; }));
    ++num_vectors;
  }
  CHECK(num_vectors == 2 * 2 + 2 + 4 + 1);
  const auto config = nlohmann::json::parse(test::read_file(dir / "config.json"));
  const auto& ignored = config["quantization_config"]["ignore"];
  for (const char* module : {"in_proj_b", "in_proj_a"})
    CHECK(std::ranges::count(ignored, nlohmann::json(layer + module)) == 1);
}

TEST_CASE("PEFT folders: adapters of all of a DeltaNet's projections are written and read") {
  const DeltaModel model;
  LoraConfig lora;
  lora.rank = 6;  // more than the rows of b and a
  const Weights adapters = read_adapters(model.config, lora, new_adapters(model.config, lora, 3));
  const test::TempDir dir;
  save_peft(dir.path(), model.config, lora, "base", views(adapters));
  const auto written = nlohmann::json::parse(test::read_file(dir / "adapter_config.json"));
  for (const char* module : {"in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj", "q_proj", "down_proj"})
    CHECK(std::ranges::count(written["target_modules"], nlohmann::json(module)) == 1);
  const PeftAdapter again = open_peft(dir.path(), model.config);
  for (const auto& [name, buffer] : read_adapters(model.config, again.lora, again.adapters))
    CHECK(std::memcmp(buffer.as<float>(), adapters.at(name).as<float>(), buffer.num_bytes()) == 0);
  CHECK(adapters.contains("model.layers.0.linear_attn.in_proj_b.lora_B.weight"));
  lora.train_norms = true;
  std::size_t num_gains = 0;
  for (const WeightSpec& spec : adapter_specs(model.config, lora)) num_gains += is_norm(spec.kind) ? 1 : 0;
  CHECK(num_gains == 2 * 2 + 2 + 1 + 1);
}

TEST_CASE("gain noise: of a DeltaNet changes norms alone") {
  const DeltaModel model;
  Snapshot clean(model.config, quant::Format::bf16), noisy(model.config, quant::Format::bf16);
  noisy.use_gain_noise({1, 0.1});
  for (Snapshot* snapshot : {&clean, &noisy}) snapshot->publish(views(model.weights), 0);
  const auto same = [](const base::Buffer& a, const base::Buffer& b) {
    return std::memcmp(a.as<float>(), b.as<float>(), a.num_bytes()) == 0;
  };
  const LayerSnapshot &a = clean.layer(0), &b = noisy.layer(0);
  CHECK(same(a.taps_CT, b.taps_CT));
  CHECK(same(a.a_log_H, b.a_log_H));
  CHECK(same(a.dt_bias_H, b.dt_bias_H));
  CHECK(!same(a.delta_norm_V, b.delta_norm_V));
  CHECK(!same(a.input_norm_D, b.input_norm_D));
  // A DeltaNet's own norm has the gain w, the others 1 + w.
  CHECK(a.delta_norm_V.as<float>()[0] == model.weights.at("model.layers.0.linear_attn.norm.weight").as<float>()[0]);
  CHECK(a.input_norm_D.as<float>()[1] == 1 + model.weights.at("model.layers.0.input_layernorm.weight").as<float>()[1]);
}

TEST_CASE("GGUF: models with DeltaNet layers are refused") {
  const DeltaModel model;
  const test::TempDir dir;
  CHECK(test::says(
      test::refusal_of([&] { (void)save_gguf({.file = dir / "x.gguf"}, model.config, WeightSource(model.weights)); }),
      "qwen3_5"));
}

}  // namespace qrl::model
