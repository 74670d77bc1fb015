// Tests adapter files against folders that PEFT wrote (scripts/golden/adapters.py).
#include "model/peft.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "state/file.h"
#include "support/catch.h"
#include "support/files.h"
#include "support/refusal.h"
#include "support/weights.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

struct PeftGolden {
  const char* name;
  const char* base;
};
const PeftGolden kGoldens[] = {{"peft_qwen2_r4", "hf_qwen2"},
                               {"peft_qwen3_r16_rslora", "hf_qwen3"},
                               {"peft_llama_r1", "hf_llama"},
                               {"peft_qwen3_norms", "hf_qwen3"},
                               {"peft_gemma3_norms", "hf_gemma3"}};

fs::path golden_folder(const std::string& name) { return test::shipped_data() / "golden" / name; }

model::Weights read(const model::ModelConfig& config, const model::PeftAdapter& adapter) {
  return model::read_adapters(config, adapter.lora, adapter.adapters);
}

std::vector<float> values_of(const base::View& view) { return {view.as<float>(), view.as<float>() + view.numel()}; }

/// Copies a golden folder and lets a test change its adapter_config.json.
struct Changed {
  explicit Changed(const std::function<void(nlohmann::json&)>& change,
                   const std::string& name = "peft_qwen3_r16_rslora") {
    fs::copy(golden_folder(name), dir.path());
    auto settings = nlohmann::json::parse(test::read_file(dir.path() / "adapter_config.json"));
    change(settings);
    std::ofstream(dir.path() / "adapter_config.json") << settings.dump();
  }
  test::TempDir dir;
};

}  // namespace

TEST_CASE("PEFT folders: merge to PEFT's merged weights") {
  for (const PeftGolden& one : kGoldens) {
    CAPTURE(one.name);
    const model::HfModel base = model::open_hf(golden_folder(one.base));
    const model::PeftAdapter adapter = model::open_peft(golden_folder(one.name), base.config);
    const model::WeightSource merged = model::merged_weights(base.config, base.weights, adapter.lora, adapter.adapters);
    const state::SafetensorsFile file(golden_folder(one.name) / "golden.safetensors");
    int num_compared = 0;
    for (const model::WeightSpec& spec : model::weight_specs(base.config)) {
      if (!file.tensors().contains("merged." + spec.name)) continue;
      const base::Buffer want = file.read_f32("merged." + spec.name), got(base::DType::f32, spec.shape);
      merged.read(spec, got.as<float>());
      for (std::int64_t i = 0; i < spec.shape.numel(); ++i)
        REQUIRE(std::abs(got.as<float>()[i] - want.as<float>()[i]) < 1e-6F);
      ++num_compared;
    }
    CHECK(num_compared == 3);
  }
}

TEST_CASE("PEFT folders: written adapters read back equal, under PEFT's names") {
  for (const PeftGolden& one : kGoldens) {
    CAPTURE(one.name);
    const model::HfModel base = model::open_hf(golden_folder(one.base));
    const model::PeftAdapter adapter = model::open_peft(golden_folder(one.name), base.config);
    const model::Weights weights = read(base.config, adapter);
    const test::TempDir dir;
    model::save_peft(dir.path(), base.config, adapter.lora, "some/base", model::views(weights));
    const model::PeftAdapter again = model::open_peft(dir.path(), base.config);
    CHECK(again.lora == adapter.lora);
    CHECK(model::peft_base(dir.path()) == "some/base");
    const state::SafetensorsFile ours(dir.path() / "adapter_model.safetensors"),
        theirs(golden_folder(one.name) / "adapter_model.safetensors");
    std::vector<std::string> our_names, their_names;
    for (const auto& [name, entry] : ours.tensors()) our_names.push_back(name);
    for (const auto& [name, entry] : theirs.tensors()) their_names.push_back(name);
    CHECK(our_names == their_names);
    for (const auto& [name, values] : read(base.config, again))
      CHECK(values_of(values.view()) == values_of(weights.at(name).view()));
  }
}

TEST_CASE("PEFT folders: adapters on a GPU are written through host memory, and refused without it") {
  const model::HfModel base = model::open_hf(golden_folder("hf_qwen3"));
  const model::PeftAdapter adapter = model::open_peft(golden_folder("peft_qwen3_r16_rslora"), base.config);
  const model::Weights weights = read(base.config, adapter);
  model::WeightViews there = model::views(weights);
  for (auto& [name, view] : there) view.device = base::Device::cuda;
  const state::StagedRead staged = [](const base::View& view, std::size_t first_byte, std::size_t num_bytes) {
    return std::span(static_cast<const std::byte*>(view.data) + first_byte, std::min<std::size_t>(num_bytes, 12));
  };
  const test::TempDir dir, plain;
  model::save_peft(dir.path(), base.config, adapter.lora, "some/base", there, staged);
  model::save_peft(plain.path(), base.config, adapter.lora, "some/base", model::views(weights));
  for (const char* file : {"adapter_model.safetensors", "adapter_config.json"})
    CHECK(test::read_file(dir / file) == test::read_file(plain / file));
  CHECK_THROWS_WITH(model::save_peft(dir.path(), base.config, adapter.lora, "some/base", there),
                    Catch::Matchers::Contains("in CPU memory") && Catch::Matchers::Contains("on a GPU"));
}

TEST_CASE("PEFT folders: any other kind than plain LoRA is refused by its key") {
  const model::ModelConfig config = model::open_hf(golden_folder("hf_qwen3")).config;
  const std::pair<const char*, nlohmann::json> faults[] = {{"peft_type", "IA3"},
                                                           {"use_dora", true},
                                                           {"bias", "all"},
                                                           {"lora_bias", true},
                                                           {"fan_in_fan_out", true},
                                                           {"rank_pattern", {{"q_proj", 3}}},
                                                           {"alpha_pattern", {{"q_proj", 3}}},
                                                           {"modules_to_save", {"lm_head"}},
                                                           {"target_parameters", {"x"}},
                                                           {"trainable_token_indices", {1}},
                                                           {"layer_replication", {{0, 1}}},
                                                           {"alora_invocation_tokens", {1}},
                                                           {"layers_to_transform", {0}},
                                                           {"init_lora_weights", "pissa_niter_4"},
                                                           {"init_lora_weights", "olora"},
                                                           {"init_lora_weights", "eva"},
                                                           {"target_modules", ".*\\.0\\..*_proj"},
                                                           {"target_modules", "q_proj"},
                                                           {"target_modules", "(?i).*Q_PROJ"},
                                                           {"target_modules", 3},
                                                           {"target_modules", "(*ACCEPT)x"},
                                                           {"target_modules", "[[:alpha:].0-9_]*"},
                                                           {"target_modules", nlohmann::json::array()},
                                                           {"exclude_modules", 3},
                                                           {"exclude_modules", {"layers.0.self_attn.q_proj"}},
                                                           {"exclude_modules", ".*layers\\.0\\..*"},
                                                           {"exclude_modules", "(?i).*Q_PROJ"},
                                                           {"exclude_modules", ".*(q_proj"},
                                                           {"exclude_modules", "(([a-z_.0-9]*)*)*[0-9]"},
                                                           {"exclude_modules", ".*_proj"},
                                                           {"r", 0},
                                                           {"lora_alpha", 0},
                                                           {"use_rslora", "yes"}};
  for (const auto& [key, value] : faults) {
    CAPTURE(key, value.dump());
    const Changed folder([&, key = key, value = value](nlohmann::json& settings) { settings[key] = value; });
    const std::string refusal = test::refusal_of([&] { (void)model::open_peft(folder.dir.path(), config); });
    CHECK(test::says(refusal, std::string("adapter_config.json: ") + key));
  }
  const Changed fits_none([](nlohmann::json& settings) { settings["target_modules"] = "q_proj"; });
  CHECK(test::says(test::refusal_of([&] { (void)model::open_peft(fits_none.dir.path(), config); }),
                   "target_modules: expected a rule that keeps some adapters, got \"q_proj\"; match whole names"));
  const Changed quotes([](nlohmann::json& settings) { settings["bias"] = "all"; });
  CHECK(test::says(test::refusal_of([&] { (void)model::open_peft(quotes.dir.path(), config); }),
                   "bias: expected \"none\", got \"all\"; trained biases"));
  const Changed harmless([](nlohmann::json& settings) {
    settings["init_lora_weights"] = "gaussian";
    settings["lora_dropout"] = 0.05;
  });
  CHECK(model::open_peft(harmless.dir.path(), config).lora.rank == 16);
}

TEST_CASE("PEFT modules: included and excluded by PEFT's rules of names and regular expressions") {
  const model::ModelConfig config = model::open_hf(golden_folder("hf_qwen3")).config;
  model::LoraConfig lora;
  lora.rank = 2;
  lora.target_modules = {"q_proj", "v_proj"};
  const model::Weights weights = model::read_adapters(config, lora, model::new_adapters(config, lora, 0));
  struct Rule {
    nlohmann::json target, exclude;
  };
  const Rule rules[] = {
      {"all-linear", {"k_proj", "self_attn.o_proj", "gate_proj", "up_proj", "down_proj", "lm_head"}},
      {"all-linear", R"(.*(\.[ko]|gate|up|down)_proj|lm_head)"},
      {"all-linear", R"(model\.layers\.\d+\.(mlp.*|self_attn\.[k-o]_proj))"},
      {R"(.*\.(q|v)_proj)", nullptr},
      {R"(model\.layers\.\d+\.self_attn\.(q_proj|k_proj|v_proj))", {"k_proj"}},
      // The patterns that ms-swift and Unsloth write.
      {"^(model)(?!.*(lm_head|visual|k_proj|o_proj)).*self_attn.*$", "x"},
      {"(?:.*?(?:language|text).*?(?:self_attn|mlp).*?(?:q_proj|v_proj).*?)|"
       R"((?:\bmodel\.layers\.[\d]{1,}\.(?:self_attn|mlp)\.(?:(?:q_proj|v_proj))))",
       nullptr},
  };
  for (const auto& [target, exclude] : rules) {
    CAPTURE(target.dump(), exclude.dump());
    const test::TempDir dir;
    model::save_peft(dir.path(), config, lora, "", model::views(weights));
    auto settings = nlohmann::json::parse(test::read_file(dir / "adapter_config.json"));
    settings["target_modules"] = target;
    settings["exclude_modules"] = exclude;
    std::ofstream(dir / "adapter_config.json") << settings.dump();
    const model::PeftAdapter adapter = model::open_peft(dir.path(), config);
    CHECK(adapter.lora.target_modules == lora.target_modules);
    CHECK(read(config, adapter).size() == weights.size());
  }
  // A name must be a whole part of a module's name: "proj" and "q" match none.
  const Changed none([](nlohmann::json& settings) { settings["exclude_modules"] = {"proj", "q", "lm_head"}; });
  const Changed plain([](nlohmann::json&) {});
  CHECK(model::open_peft(none.dir.path(), config).lora == model::open_peft(plain.dir.path(), config).lora);
}

TEST_CASE("PEFT folders: other modules, ranks or shapes, and NaN are refused by tensor") {
  const model::ModelConfig config = model::open_hf(golden_folder("hf_qwen3")).config;
  const auto refusal_of = [&](const Changed& folder) {
    return test::refusal_of([&] { (void)read(config, model::open_peft(folder.dir.path(), config)); });
  };
  CHECK(test::says(refusal_of(Changed([](nlohmann::json& settings) { settings["r"] = 3; })),
                   "lora_A.weight: expected [3, "));
  CHECK(test::says(refusal_of(Changed([](nlohmann::json& settings) { settings["r"] = 40; })),
                   "adapter_config.json: r: expected at most 33"));
  CHECK(test::says(refusal_of(Changed([](nlohmann::json& settings) { settings["target_modules"] = {"q_proj"}; })),
                   "in target_modules, got base_model.model.model.layers.0."));
  const Changed more(
      [](nlohmann::json& settings) {
        settings["target_modules"] = {"q_proj", "k_proj", "v_proj"};
      },
      "peft_llama_r1");
  CHECK(test::says(test::refusal_of([&] {
                     (void)model::open_peft(more.dir.path(), model::open_hf(golden_folder("hf_llama")).config);
                   }),
                   "expected tensor base_model.model.model.layers.0.self_attn.k_proj.lora_A.weight"));
  CHECK(test::says(refusal_of(Changed([](nlohmann::json& settings) { settings["target_modules"] = {"query"}; })),
                   "adapter_config.json: target_modules: expected modules of the model's layers, got \"query\""));
  CHECK(test::says(test::refusal_of([&] { (void)model::open_peft(golden_folder("hf_qwen3"), config); }),
                   "a PEFT folder"));

  const model::PeftAdapter adapter = model::open_peft(golden_folder("peft_qwen3_r16_rslora"), config);
  const model::Weights weights = read(config, adapter);
  weights.begin()->second.as<float>()[1] = std::numeric_limits<float>::quiet_NaN();
  const test::TempDir dir;
  model::save_peft(dir.path(), config, adapter.lora, "", model::views(weights));
  CHECK(test::says(test::refusal_of([&] { (void)read(config, model::open_peft(dir.path(), config)); }),
                   weights.begin()->first + ": expected finite weights"));
}

TEST_CASE("new adapters: uniform within 1/√inputs, and depend only on seed and tensor") {
  const model::ModelConfig config = model::open_hf(golden_folder("hf_qwen3")).config;
  model::LoraConfig lora;
  lora.rank = 16;
  const auto drawn = [&](std::uint64_t seed, const std::string& name) {
    const model::WeightSource source = model::new_adapters(config, lora, seed);
    for (const model::WeightSpec& spec : model::adapter_specs(config, lora)) {
      if (spec.name != name) continue;
      std::vector<float> values(static_cast<std::size_t>(spec.shape.numel()));
      source.read(spec, values.data());
      return values;
    }
    return std::vector<float>();
  };
  const std::string a = "model.layers.0.self_attn.q_proj.lora_A.weight";
  const std::vector<float> values = drawn(1, a);
  const double bound = 1 / std::sqrt(33.0);
  double sum = 0, squares = 0;
  for (const float value : values) {
    CHECK(std::abs(value) <= bound);
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  const auto n = static_cast<double>(values.size());  // n = 528 values, uniform within ± bound: the mean has a
                                                      // deviation of bound / √(3n), the variance is bound² / 3
  CHECK(std::abs(sum / n) < 4 * bound / std::sqrt(3 * n));
  CHECK(std::abs(squares / n - bound * bound / 3) < 0.2 * bound * bound / 3);
  CHECK(drawn(1, a) == values);
  CHECK(drawn(2, a) != values);
  CHECK(drawn(1, "model.layers.1.self_attn.q_proj.lora_A.weight") != values);
  for (const float value : drawn(1, "model.layers.1.mlp.up_proj.lora_B.weight")) CHECK(value == 0);
}
