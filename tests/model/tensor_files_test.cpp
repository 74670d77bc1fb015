// Tests the experts of a Hugging Face folder: stored one by one, held as a tensor of all.
#include "model/tensor_files.h"

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "model/weights.h"
#include "state/safetensors.h"
#include "support/catch.h"
#include "support/files.h"
#include "support/refusal.h"
#include "support/weights.h"

using namespace qrl;
using namespace qrl::model;

namespace {

std::filesystem::path moe_folder(const std::string& name) { return test::shipped_data() / "golden" / name; }

/// Returns each stored tensor's values in fp32, read by its own name.
std::map<std::string, std::vector<float>> stored_values(const std::filesystem::path& dir) {
  std::map<std::string, std::vector<float>> all;
  const TensorFiles files(dir);
  for (const auto& [name, file] : files.by_name()) {
    std::vector<float> values(static_cast<std::size_t>(file->entry(name).shape.numel()));
    file->read_f32(name, 0, values);
    all.emplace(name, std::move(values));
  }
  return all;
}

/// Writes a folder with the model's config and these tensors, and returns the refusal to load it.
std::string refusal_of_tensors(const ModelConfig& config, const std::vector<state::NamedView>& tensors) {
  const test::TempDir dir;
  std::ofstream(dir / "config.json") << config_json(config);
  state::write_safetensors(dir / "model.safetensors", tensors, {});
  return test::refusal_of([&] { (void)open_hf(dir.path()); });
}

/// Returns the views of all stored tensors of a model, by name.
std::map<std::string, base::View> stored_views(const test::LoadedModel& model) {
  std::map<std::string, base::View> all;
  for (const WeightSpec& spec : weight_specs(model.config)) {
    for (const StoredPart& part : stored_parts(spec)) {
      base::View view = model.weights.at(spec.name).view();
      view.data = static_cast<float*>(view.data) + part.first;
      view.shape = part.shape;
      all.emplace(part.name, view);
    }
  }
  return all;
}

/// Returns a model with as many experts as Qwen3-30B-A3B has.
test::LoadedModel with_128_experts() {
  ModelConfig config = read_config(moe_folder("hf_qwen3_moe_mixed") / "config.json");
  config.num_experts = 128;
  config.num_experts_per_tok = 8;
  config.moe_intermediate_size = 6;
  config.num_hidden_layers = 2;
  const Weights weights = test::init_weights(config, 1);
  const test::TempDir dir;
  save_hf(dir / "rounded", config, views(weights));  // to the config's bf16
  return test::load_hf(dir / "rounded");
}

std::map<std::string, std::vector<float>> values_of_views(const std::map<std::string, base::View>& views) {
  std::map<std::string, std::vector<float>> all;
  for (const auto& [name, view] : views) all[name] = {view.as<float>(), view.as<float>() + view.numel()};
  return all;
}

std::vector<state::NamedView> named(const std::map<std::string, base::View>& views) {
  std::vector<state::NamedView> all;
  for (const auto& [name, view] : views) all.push_back({name, view, {}});
  return all;
}

}  // namespace

TEST_CASE("MoE tensors: a sparse layer's experts are two tensors, each expert's gate before its up") {
  const test::LoadedModel model = test::load_hf(moe_folder("hf_qwen3_moe"));
  const auto stored = stored_values(moe_folder("hf_qwen3_moe"));
  const base::Buffer& gate_up = model.weights.at("model.layers.2.mlp.experts.gate_up_proj.weight");
  const base::Buffer& down = model.weights.at("model.layers.2.mlp.experts.down_proj.weight");
  REQUIRE(gate_up.shape() == base::Shape{8, 22, 24});
  REQUIRE(down.shape() == base::Shape{8, 24, 11});
  const auto same = [](const float* values, const std::vector<float>& want) {
    return std::memcmp(values, want.data(), want.size() * sizeof(float)) == 0;
  };
  for (std::size_t expert = 0; expert < 8; ++expert) {
    const std::string prefix = "model.layers.2.mlp.experts." + std::to_string(expert);
    CHECK(same(gate_up.as<float>() + expert * 22 * 24, stored.at(prefix + ".gate_proj.weight")));
    CHECK(same(gate_up.as<float>() + (expert * 22 + 11) * 24, stored.at(prefix + ".up_proj.weight")));
    CHECK(same(down.as<float>() + expert * 24 * 11, stored.at(prefix + ".down_proj.weight")));
  }
  CHECK(model.weights.at("model.layers.0.mlp.gate.weight").shape() == base::Shape{8, 24});
  CHECK(model.weights.at("model.layers.1.mlp.gate_proj.weight").shape() == base::Shape{29, 24});
  CHECK_FALSE(model.weights.contains("model.layers.1.mlp.gate.weight"));
}

TEST_CASE("MoE tensors: one per layer and matrix, for any number of experts") {
  ModelConfig config = read_config(moe_folder("hf_qwen3_moe") / "config.json");
  const std::size_t num_tensors = weight_specs(config).size();
  config.num_experts = 200;
  const auto specs = weight_specs(config);
  CHECK(specs.size() == num_tensors);
  std::size_t num_stored = 0, num_routers = 0;
  for (const WeightSpec& spec : specs) {
    num_routers += spec.kind == WeightKind::router ? 1 : 0;
    std::int64_t next = 0;
    for (const StoredPart& part : stored_parts(spec)) {
      CHECK(part.first == next);
      next += part.shape.numel();
      ++num_stored;
    }
    CHECK(next == spec.shape.numel());
  }
  CHECK(num_routers == 2);
  CHECK(num_stored == num_tensors - 4 + 2 * 3 * 200);
}

TEST_CASE("MoE files: experts round-trip in one file or many shards, from views, a source or ranks") {
  for (const std::string name : {"hf_qwen3_moe", "hf_qwen3_moe_mixed", "128 experts"}) {
    INFO(name);
    const bool is_golden = name != "128 experts";
    const test::LoadedModel model = is_golden ? test::load_hf(moe_folder(name)) : with_128_experts();
    const auto want = is_golden ? stored_values(moe_folder(name)) : values_of_views(stored_views(model));
    const test::TempDir dir;
    save_hf(dir / "one", model.config, views(model.weights));
    CHECK(stored_values(dir / "one") == want);
    CHECK(open_hf(dir / "one").config == model.config);

    save_hf(dir / "shards", model.config, views(model.weights), 9'000);
    CHECK(stored_values(dir / "shards") == want);
    int num_reads = 0;
    const WeightSource source([&](const WeightSpec& spec, float* to) {
      ++num_reads;
      std::copy_n(model.weights.at(spec.name).as<float>(), spec.shape.numel(), to);
    });
    save_hf(dir / "read", model.config, source, 9'000);
    CHECK(num_reads == static_cast<int>(model.weights.size()));
    std::size_t num_files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(dir / "shards")) {
      CHECK(test::read_file(dir / "read" / entry.path().filename()) == test::read_file(entry.path()));
      ++num_files;
    }
    CHECK(num_files > 6);

    std::filesystem::create_directories(dir / "ranks");
    WeightViews first, second;
    for (const auto& [tensor, view] : views(model.weights))
      (first.size() <= second.size() ? first : second)[tensor] = view;
    save_hf_shard(dir / "ranks", model.config, first, 1, 2);
    save_hf_shard(dir / "ranks", model.config, second, 2, 2);
    finish_hf_shards(dir / "ranks", model.config);
    CHECK(stored_values(dir / "ranks") == want);
  }
}

TEST_CASE("MoE files: a missing, misshaped, non-finite or surplus expert is refused by its stored name") {
  const test::LoadedModel model = test::load_hf(moe_folder("hf_qwen3_moe"));
  const std::string up = "model.layers.2.mlp.experts.7.up_proj.weight";
  const auto views = stored_views(model);
  REQUIRE(refusal_of_tensors(model.config, named(views)) == "accepted");

  auto missing = views;
  missing.erase(up);
  CHECK(refusal_of_tensors(model.config, named(missing)).find(up) != std::string::npos);
  auto misshaped = views;
  misshaped[up].shape = base::Shape{24, 11};
  const std::string shape = refusal_of_tensors(model.config, named(misshaped));
  CHECK(shape.find(up) != std::string::npos);
  CHECK(shape.find("expected shape [11, 24], got [24, 11]") != std::string::npos);
  auto extra = views;
  extra["model.layers.2.mlp.experts.8.up_proj.weight"] = views.at(up);
  CHECK(refusal_of_tensors(model.config, named(extra)).find("experts.8.up_proj") != std::string::npos);
  auto dense = views;
  dense["model.layers.2.mlp.up_proj.weight"] = views.at("model.layers.1.mlp.up_proj.weight");
  CHECK(refusal_of_tensors(model.config, named(dense)).find("model.layers.2.mlp.up_proj.weight") != std::string::npos);

  const test::TempDir dir;
  base::Buffer broken(base::DType::f32, {11, 24});
  std::memset(broken.as<float>(), 0, broken.num_bytes());
  broken.as<float>()[5] = std::numeric_limits<float>::infinity();
  auto infinite = views;
  infinite[up] = broken.view();
  std::ofstream(dir / "config.json") << config_json(model.config);
  state::write_safetensors(dir / "model.safetensors", named(infinite), {});
  const std::string value = test::refusal_of([&] { (void)test::load_hf(dir.path()); });
  CHECK(value.find(up) != std::string::npos);
  CHECK(value.find("element 5") != std::string::npos);
}

TEST_CASE("MoE files: one tensor of all experts is refused, with the call that stores them one by one") {
  const test::LoadedModel model = test::load_hf(moe_folder("hf_qwen3_moe"));
  auto fused = stored_views(model);
  std::erase_if(fused,
                [](const auto& entry) { return entry.first.find("layers.0.mlp.experts.") != std::string::npos; });
  fused["model.layers.0.mlp.experts.gate_up_proj"] =
      model.weights.at("model.layers.0.mlp.experts.gate_up_proj.weight").view();
  fused["model.layers.0.mlp.experts.down_proj"] =
      model.weights.at("model.layers.0.mlp.experts.down_proj.weight").view();
  const std::string message = refusal_of_tensors(model.config, named(fused));
  CHECK(message.find("model.layers.0.mlp.experts.gate_up_proj") != std::string::npos);
  CHECK(message.find("save_original_format=True") != std::string::npos);
}

TEST_CASE("MoE files: an expert in two shards is refused") {
  const test::TempDir dir;
  std::filesystem::copy(moe_folder("hf_qwen3_moe_mixed"), dir.path(), std::filesystem::copy_options::recursive);
  const state::SafetensorsFile first(dir / "model-00001-of-00003.safetensors");
  std::string twice;
  for (const auto& [name, entry] : first.tensors()) {
    if (name.find(".mlp.experts.") != std::string::npos) twice = name;
  }
  REQUIRE_FALSE(twice.empty());
  std::vector<float> values(static_cast<std::size_t>(first.entry(twice).shape.numel()));
  first.read_f32(twice, 0, values);
  state::write_safetensors(dir / "model-00004.safetensors",
                           {{twice, base::View{values.data(), base::DType::f32, first.entry(twice).shape}, {}},
                            {"other", base::View{values.data(), base::DType::f32, first.entry(twice).shape}, {}}},
                           {});
  const auto index_file = dir / "model.safetensors.index.json";
  nlohmann::json index = nlohmann::json::parse(test::read_file(index_file));
  index["weight_map"]["other"] = "model-00004.safetensors";
  std::ofstream(index_file) << index.dump();
  CHECK(test::refusal_of([&] { (void)open_hf(dir.path()); }).find(twice) != std::string::npos);
}
