// Tests the keys of a mixture of experts in config.json.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "model/config.h"
#include "support/catch.h"
#include "support/files.h"
#include "support/refusal.h"

using namespace qrl;
using namespace qrl::model;

namespace {

/// Returns the golden folder's config: 8 experts of 11, 2 a token, layer 1 of 3 dense.
nlohmann::json experts_config() {
  return nlohmann::json::parse(test::read_file(test::shipped_data() / "golden" / "hf_qwen3_moe" / "config.json"));
}

std::string experts_refusal(const nlohmann::json& config) {
  return test::refusal_of([&] { (void)parse_config(config.dump(), "config.json"); });
}

ModelConfig with_layers(std::int64_t count, std::int64_t step, std::vector<std::int64_t> dense) {
  ModelConfig config;
  config.num_hidden_layers = count;
  config.num_experts = 4;
  config.decoder_sparse_step = step;
  config.mlp_only_layers = std::move(dense);
  return config;
}

std::vector<std::int64_t> sparse_layers(const ModelConfig& config) {
  std::vector<std::int64_t> layers;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (config.is_sparse(layer)) layers.push_back(layer);
  }
  CHECK(config.num_sparse_layers() == static_cast<std::int64_t>(layers.size()));
  return layers;
}

}  // namespace

TEST_CASE("MoE config: a layer is sparse at each step, unless it is listed as dense") {
  using Layers = std::vector<std::int64_t>;
  CHECK(sparse_layers(with_layers(4, 1, {})) == Layers{0, 1, 2, 3});
  CHECK(sparse_layers(with_layers(4, 1, {0, 2})) == Layers{1, 3});
  CHECK(sparse_layers(with_layers(6, 2, {})) == Layers{1, 3, 5});
  CHECK(sparse_layers(with_layers(6, 2, {2, 3})) == Layers{1, 5});
  CHECK(sparse_layers(with_layers(7, 3, {})) == Layers{2, 5});
  ModelConfig dense = with_layers(4, 1, {});
  dense.num_experts = 0;
  CHECK(sparse_layers(dense).empty());
}

TEST_CASE("MoE config: keys are read, and written for transformers 4 and 5") {
  const nlohmann::json source = experts_config();
  const ModelConfig config = parse_config(source.dump(), "x");
  CHECK(config.family == Family::qwen3_moe);
  CHECK(config.qk_norm);
  CHECK(config.num_experts == 8);
  CHECK(config.num_experts_per_tok == 2);
  CHECK(config.moe_intermediate_size == 11);
  CHECK(config.decoder_sparse_step == 1);
  CHECK(config.mlp_only_layers == std::vector<std::int64_t>{1});
  CHECK(config.norm_topk_prob);
  CHECK(config.router_aux_loss_coef == 0.001F);
  CHECK_FALSE(config.output_router_logits);
  CHECK(unknown_config_keys(source.dump(), "x").empty());

  const std::string written = config_json(config);
  CHECK(parse_config(written, "x") == config);
  CHECK(unknown_config_keys(written, "x").empty());
  const nlohmann::json root = nlohmann::json::parse(written);
  CHECK(root["num_experts"] == 8);
  CHECK(root["num_local_experts"] == 8);
  CHECK(root["router_aux_loss_coef"] == 0.001);
  CHECK(root["architectures"][0] == "Qwen3MoeForCausalLM");

  nlohmann::json shorter = source;
  shorter.erase("router_aux_loss_coef");
  CHECK(parse_config(shorter.dump(), "x").router_aux_loss_coef == 0.001F);  // Qwen3MoeConfig's default

  ModelConfig other = config;
  other.norm_topk_prob = false;
  other.output_router_logits = true;
  other.router_aux_loss_coef = 0;
  other.decoder_sparse_step = 3;
  other.mlp_only_layers = {};
  CHECK(parse_config(config_json(other), "x") == other);
}

TEST_CASE("MoE config: either spelling of the number of experts is read, both only if equal") {
  nlohmann::json config = experts_config();
  config.erase("num_local_experts");
  CHECK(experts_refusal(config).find("num_experts") != std::string::npos);
  config["num_experts"] = 8;
  CHECK(parse_config(config.dump(), "x").num_experts == 8);
  config["num_local_experts"] = 8;
  CHECK(parse_config(config.dump(), "x").num_experts == 8);
  config["num_local_experts"] = 4;
  CHECK(experts_refusal(config).find("\"num_local_experts\": expected the same as num_experts") != std::string::npos);
}

TEST_CASE("MoE config: omitted keys have transformers' values") {
  nlohmann::json config = experts_config();
  for (const char* key : {"decoder_sparse_step", "router_aux_loss_coef", "output_router_logits"}) config.erase(key);
  config["mlp_only_layers"] = nullptr;
  const ModelConfig read = parse_config(config.dump(), "x");
  CHECK(read.decoder_sparse_step == 1);
  CHECK(read.mlp_only_layers.empty());
  CHECK(read.num_sparse_layers() == 3);
  config["shared_expert_intermediate_size"] = 0;  // no shared expert
  CHECK(experts_refusal(config) == "accepted");
}

TEST_CASE("MoE config: impossible values are refused by the name of their key") {
  const std::vector<std::pair<std::string, std::vector<std::string>>> refused = {
      {"num_local_experts", {"0", "257", "\"8\"", "8.0", "1", "null"}},  // 1 is less than the 2 of a token
      {"num_experts_per_tok", {"0", "9", "null", "true"}},
      {"moe_intermediate_size", {"0", "-1", "1048577", "null"}},
      {"norm_topk_prob", {"1", "null", "\"true\""}},
      {"decoder_sparse_step", {"0", "4", "1.0"}},
      {"mlp_only_layers", {"[3]", "[-1]", "[0,0]", "[0,1,2]", "1", "[\"0\"]"}},
      {"router_aux_loss_coef", {"-0.1", "\"0\"", "1e7"}},
      {"output_router_logits", {"0"}},
      {"shared_expert_intermediate_size", {"16"}},
      {"n_shared_experts", {"1"}},
      {"num_shared_experts", {"2"}},
  };
  for (const auto& [key, values] : refused) {
    for (const std::string& value : values) {
      INFO(key << " = " << value);
      nlohmann::json config = experts_config();
      config[key] = nlohmann::json::parse(value);
      const std::string named = key == "num_local_experts" && (value == "1" || value == "null") ? "num_experts" : key;
      CHECK(experts_refusal(config).find(named) != std::string::npos);
    }
  }
}

TEST_CASE("MoE config: a dense model with expert keys is refused") {
  nlohmann::json config = experts_config();
  config["model_type"] = "qwen3";
  config["architectures"] = {"Qwen3ForCausalLM"};
  CHECK(experts_refusal(config).find("models with this key are not supported") != std::string::npos);
}

TEST_CASE("MoE config: the description counts parameters that act on a token") {
  const std::filesystem::path file = test::shipped_data() / "golden" / "hf_configs" / "qwen3_30b_a3b.hub.json";
  CHECK(num_parameters(read_config(file)) == 30'532'122'624);
  CHECK(describe_config(file).find("128 experts of 768, 8 per token, in 48 layers, 3353032704 active parameters") !=
        std::string::npos);
}
