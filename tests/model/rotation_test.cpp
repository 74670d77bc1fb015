// Tests snapshots whose matrices are rotated together with their inputs (quant/rotation.h).
#include "base/error.h"
#include "model/compressed_tensors.h"
#include "model/snapshot.h"
#include "support/catch.h"
#include "support/models.h"
#include "support/refusal.h"
#include "support/weights.h"

using namespace qrl;
using namespace qrl::model;
using quant::Format;

namespace {

/// Blocks of 32 fit all widths, blocks of 64 all except that of the attention's output.
ModelConfig config_of_blocks() { return test::model_config(Family::qwen2, {71, 64, 2, 4, 2, 8, 128}); }

SnapshotFormats rotating(Format format, std::int64_t block, bool if_it_fits = false) {
  SnapshotFormats formats(format);
  formats.rotation = {block};
  formats.rotates_if_it_fits = if_it_fits;
  return formats;
}

}  // namespace

TEST_CASE("snapshot rotation: quantized matrices equal the reference codec's, and no other tensor is rotated") {
  const ModelConfig config = config_of_blocks();
  const Weights weights = test::init_weights(config, 3);
  for (const Format format : {Format::int8, Format::fp8_block128, Format::int4}) {
    CAPTURE(quant::name(format));
    SnapshotFormats formats = rotating(format, 32);
    formats.ignore = {"down_proj"};
    Snapshot snapshot(config, formats);
    snapshot.publish(views(weights), 0);
    CHECK(snapshot.rotation() == quant::Rotation{32});
    CHECK(snapshot.layer(1).gate_up.rotation == quant::Rotation{32});
    CHECK_FALSE(snapshot.layer(1).down.rotation);
    CHECK_FALSE(snapshot.lm_head().rotation);
    const base::Buffer& master = weights.at("model.layers.1.self_attn.o_proj.weight");
    std::vector<float> rotated(master.as<float>(), master.as<float>() + master.shape().numel());
    quant::rotate({32}, rotated);
    std::vector<float> want(rotated.size()), got(rotated.size());
    quant::round_weights(format, rotated, 32, want);
    ops::unpack_rows(snapshot.layer(1).o, 0, 64, got.data());
    CHECK(got == want);
    // The tensor descriptions record the rotation. Reported errors are those of the format on rotated weights.
    const auto tensors = snapshot.tensors();
    const auto o =
        std::find_if(tensors.begin(), tensors.end(), [](const auto& one) { return one.name == "layers.1.o"; });
    CHECK(test::says(o->what, ", inputs rotated by 32"));
    for (const WeightError& weight : snapshot.format_errors(views(weights))) {
      if (weight.weight != "model.layers.1.self_attn.o_proj.weight") continue;
      CHECK(weight.error.rms == quant::format_error(rotated, want).rms);
      CHECK(weight.error.snr_db > 10);
    }
  }
}

TEST_CASE("snapshot rotation: a block that does not divide a matrix's inputs is refused by module, or unused") {
  const ModelConfig config = config_of_blocks();  // attention has 32 outputs
  const std::string refusal = test::refusal_of([&] { check_formats(config, rotating(Format::int8, 64)); });
  CHECK(test::says(refusal, "quant.rollout.rotation"));
  CHECK(test::says(refusal, "multiples of quant.rollout.rotation_block = 64"));
  CHECK(test::says(refusal, "32 inputs of model.layers.0.self_attn.o_proj"));
  CHECK(test::says(refusal, "set a smaller block"));
  ModelConfig wide = config;
  wide.head_dim = 24;  // one block and a half
  CHECK(test::says(test::refusal_of([&] { check_formats(wide, rotating(Format::int8, 64)); }), "96 inputs of model"));
  CHECK_THROWS_AS(Snapshot(config, rotating(Format::int8, 64)), base::Error);
  CHECK_FALSE(Snapshot(config, rotating(Format::int8, 64, true)).rotation());
  CHECK(Snapshot(config, rotating(Format::int8, 32, true)).rotation() == quant::Rotation{32});
  // A matrix that stays bf16 may have any width.
  SnapshotFormats formats = rotating(Format::int8, 64);
  formats.ignore = {"o_proj"};
  CHECK(Snapshot(config, formats).rotation() == quant::Rotation{64});
  // Formats without scales are never rotated.
  for (const Format format : {Format::bf16, Format::f32})
    CHECK_FALSE(Snapshot(config, rotating(format, 32, true)).rotation());
}

TEST_CASE("snapshot rotation: a norm's UAQ factor commutes with it") {
  const ModelConfig config = config_of_blocks();
  Weights weights = test::init_weights(config, 3);
  const auto codes = [&] {
    Snapshot snapshot(config, rotating(Format::int8, 32));
    snapshot.publish(views(weights), 0);
    const base::View panels = snapshot.layer(0).qkv.panels.view();
    const auto* words = static_cast<const std::int32_t*>(panels.data);
    return std::vector<std::int32_t>(words, words + panels.numel());
  };
  const auto before = codes();
  for (auto& [name, buffer] : weights) {
    if (name.find("q_proj") == std::string::npos && name.find("k_proj") == std::string::npos &&
        name.find("v_proj") == std::string::npos)
      continue;
    for (std::int64_t i = 0; i < buffer.shape().numel(); ++i) buffer.as<float>()[i] /= 2;
  }
  CHECK(codes() == before);
}

TEST_CASE("snapshot rotation: rotated matrices are not written as compressed-tensors") {
  const ModelConfig config = config_of_blocks();
  Snapshot snapshot(config, rotating(Format::int8, 32));
  snapshot.publish(views(test::init_weights(config, 3)), 0);
  CHECK_THROWS_AS(save_compressed("nowhere", snapshot), base::Error);
}
