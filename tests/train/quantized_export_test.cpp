// Tests export --quantized of checkpoints: the folder holds the sampler's weights, or is not written.
#include <nlohmann/json.hpp>

#include "base/bf16.h"
#include "quant/format.h"
#include "state/safetensors.h"
#include "support/catch.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;
using quant::Format;
using state::SafetensorsFile;

namespace {

test::Outcome export_quantized(const fs::path& out, const fs::path& checkpoint,
                               const std::string& options = "--quantized") {
  return test::run_command(test::kProgram + "export " + checkpoint.string() + " --out " + out.string() + " " + options);
}

/// Runs one step of the tiny recipe from the cold start of finished_run; returns its checkpoint.
fs::path one_step(const fs::path& run, const std::string& settings) {
  const test::Outcome outcome = test::run_command(
      test::tiny_command(run, "--set trainer.total_training_steps=1 --set eval.freq=0 --set sft.from=" +
                                  (test::finished_run() / "checkpoints/sft_12").string() + " " + settings));
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  return run / "checkpoints/step_1";
}

/// Returns a module's weight as a reader of compressed-tensors computes it: quantized values times their scales.
std::vector<float> dequantized(const SafetensorsFile& file, const std::string& module, Format format) {
  const bool is_packed = quant::spec(format).weights == quant::Element::int4;
  const base::Buffer scales = file.read_f32(module + ".weight_scale");
  const base::Buffer stored = file.read(module + (is_packed ? ".weight_packed" : ".weight"));
  const std::int64_t out = stored.shape()[0], in = stored.shape()[1] * (is_packed ? 8 : 1);
  const std::int64_t num_scales = scales.shape()[1];
  std::vector<float> values;
  for (std::int64_t i = 0; i < out * in; ++i) {
    const int value =
        is_packed
            ? static_cast<int>(static_cast<std::uint32_t>(stored.as<std::int32_t>()[i / 8]) >> (i % 8 * 4) & 15U) - 8
            : stored.as<std::int8_t>()[i];
    values.push_back(static_cast<float>(value) * scales.as<float>()[i / in * num_scales + i % in * num_scales / in]);
  }
  return values;
}

/// Describes a folder: how many modules are in the format, and how many tensors are as they were.
struct Held {
  Format format;
  std::string model_type;
  std::size_t num_quantized = 0, num_as_it_is = 0;
};

/// Compares the folder that a checkpoint's quantized export wrote with the checkpoint's rounded weights; returns its
/// config.json.
nlohmann::json check_export(const fs::path& out, const fs::path& checkpoint, const Held& held) {
  const Format format = held.format;
  INFO(quant::name(format));
  const test::Outcome outcome = export_quantized(out, checkpoint);
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  CHECK(test::says(outcome, std::string(quant::name(format)) + "; compressed-tensors"));
  const SafetensorsFile written(out / "model.safetensors"), masters(checkpoint / "model.safetensors");
  std::size_t num_quantized = 0, num_as_it_is = 0;
  for (const auto& [name, entry] : masters.tensors()) {
    CAPTURE(name);
    const base::Buffer master = masters.read_f32(name);
    const std::span<const float> values(master.as<float>(), static_cast<std::size_t>(entry.shape.numel()));
    std::vector<float> expected(values.begin(), values.end()), got;
    if (name.find("_proj") != std::string::npos) {
      quant::round_weights(format, values, entry.shape[1], expected);
      got = dequantized(written, name.substr(0, name.rfind('.')), format);
      ++num_quantized;
    } else {
      const base::Buffer wide = written.read_f32(name);  // the sampler's embedding and routers are in bf16
      if (written.entry(name).dtype == base::DType::bf16)
        for (float& value : expected) value = base::to_float(base::to_bf16(value));
      got.assign(wide.as<float>(), wide.as<float>() + wide.shape().numel());
      ++num_as_it_is;
    }
    const bool same = got == expected;
    CHECK(same);
  }
  CHECK(num_quantized == held.num_quantized);
  CHECK(num_as_it_is == held.num_as_it_is);
  const auto config = nlohmann::json::parse(test::read_file(out / "config.json"));
  CHECK(config.at("model_type") == held.model_type);
  CHECK(config.at("quantization_config").at("quant_method") == "compressed-tensors");
  CHECK(fs::exists(out / "tokenizer.json"));
  return config;
}

}  // namespace

TEST_CASE("quantized export: holds the checkpoint's weights as the sampler rounded them, and the rest unchanged") {
  const test::TempDir dir;
  const std::size_t num_gains = 3 * 4 + 1;
  check_export(dir / "int8", test::finished_run() / "checkpoints/step_4",
               {Format::int8, "qwen3", 3 * 7, 1 + num_gains});
  check_export(dir / "int4_folder",
               one_step(dir / "int4", "--set quant.rollout.weights=int4 --set quant.learner.forward=low_bit"),
               {Format::int4, "qwen3", 3 * 7, 1 + num_gains});
}

TEST_CASE("quantized MoE export: the sampler's bits, each expert by name, routers unchanged") {
  const test::TempDir dir;
  const test::Outcome run = test::run_command(test::tiny_command(
      dir / "run", "--set model.init.config=" QRL_SOURCE_DIR
                   "/recipes/models/quickstart-moe/config.json --set sft.steps=0 --set trainer.total_training_steps=1 "
                   "--set eval.freq=0 --set quant.rollout.rotation=none"));
  INFO(run.output);
  REQUIRE(run.exit_code == 0);
  const nlohmann::json config = check_export(dir / "out", dir / "run/checkpoints/step_1",
                                             {Format::int8, "qwen3_moe", 3 * (4 + 8 * 3), 1 + (3 * 4 + 1) + 3});
  nlohmann::json ignored = nlohmann::json::array();
  for (int layer = 0; layer < 3; ++layer) ignored.push_back("model.layers." + std::to_string(layer) + ".mlp.gate");
  ignored.push_back("lm_head");
  CHECK(config.at("quantization_config").at("ignore") == ignored);
}

TEST_CASE("quantized export: unsupported settings are refused by key, and nothing is written") {
  const test::TempDir dir;
  const auto refuses = [&](const fs::path& checkpoint, const std::string& words, const std::string& more = "") {
    const test::Outcome outcome = export_quantized(dir / "never", checkpoint, "--quantized " + more);
    INFO(outcome.output);
    CHECK(outcome.exit_code == 2);
    CHECK(test::says(outcome, words));
    CHECK_FALSE(fs::exists(dir / "never"));
  };
  const std::string adapters = "--set lora.rank=4 --set quant.learner.forward=low_bit ";
  refuses(one_step(dir / "beside", adapters), "expected lora.publish: merge for a checkpoint of adapters, got adapter");
  refuses(one_step(dir / "rotated",
                   adapters + "--set quant.rollout.rotation=hadamard --set quant.rollout.rotation_block=32"),
          "expected lora.publish: merge for a checkpoint of adapters, got adapter");
  refuses(one_step(dir / "head", "--set quant.rollout.lm_head=int8"),
          "expected a run with quant.rollout.lm_head auto or fp32, got int8");
  refuses(one_step(dir / "wide", "--set quant.rollout.weights=bf16"),
          "expected a run with quant.rollout.weights int8, fp8_e4m3 or int4, got bf16");
  const fs::path int8 = test::finished_run() / "checkpoints/step_4";
  refuses(int8, "--dtype: expected no --quantized with it", "--dtype float32");
  refuses(int8, "--merge: expected no --quantized with it", "--merge");
  REQUIRE(export_quantized(dir / "hf", int8, "").exit_code == 0);
  refuses(dir / "hf", "--quantized: expected a checkpoint");
}

TEST_CASE("quantized export with merged adapters: the bits of the merged model") {
  const test::TempDir dir;
  const fs::path checkpoint =
      one_step(dir / "merged",
               "--set lora.rank=4 --set lora.publish=merge --set optim.lr=0.05 --set quant.rollout.weights=int8");
  REQUIRE(export_quantized(dir / "quantized", checkpoint).exit_code == 0);
  REQUIRE(export_quantized(dir / "whole", checkpoint, "--merge --onto original --dtype float32").exit_code == 0);
  const SafetensorsFile written(dir / "quantized/model.safetensors"), whole(dir / "whole/model.safetensors"),
      base(test::finished_run() / "checkpoints/sft_12/model.safetensors");
  const std::string module = "model.layers.1.mlp.up_proj";
  const base::Buffer merged = whole.read_f32(module + ".weight");
  const std::span<const float> values(merged.as<float>(), static_cast<std::size_t>(merged.shape().numel()));
  std::vector<float> expected(values.size()), without(values.size());
  quant::round_weights(Format::int8, values, merged.shape()[1], expected);
  const bool same = dequantized(written, module, Format::int8) == expected;
  CHECK(same);
  const base::Buffer before = base.read_f32(module + ".weight");
  quant::round_weights(Format::int8, {before.as<float>(), values.size()}, merged.shape()[1], without);
  const bool moved = without != expected;
  CHECK(moved);
}
