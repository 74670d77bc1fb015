#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/config.h"
#include "model/config_reader.h"
#include "state/json.h"

namespace qrl::model {

namespace {

using Json = nlohmann::json;

/// Returns num_experts (transformers 4) or num_local_experts (5). If both are present, they must be equal.
std::int64_t read_num_experts(const ConfigReader& reader) {
  const bool is_new = reader.find("num_experts") == nullptr && reader.find("num_local_experts") != nullptr;
  const std::int64_t count = reader.size(is_new ? "num_local_experts" : "num_experts", kMaxExperts);
  const Json* other = reader.find("num_local_experts");
  QRL_REQUIRE(other == nullptr || *other == count, reader.at("num_local_experts"), "the same as num_experts",
              state::shown_value(*other) + " with num_experts " + std::to_string(count));
  return count;
}

std::vector<std::int64_t> read_dense_layers(const ConfigReader& reader, std::int64_t num_layers) {
  std::vector<std::int64_t> layers;
  const Json* list = reader.find("mlp_only_layers");
  if (list == nullptr) return layers;
  const std::string expected = "a list of layers from 0 to " + std::to_string(num_layers - 1) + ", each once";
  QRL_REQUIRE(list->is_array(), reader.at("mlp_only_layers"), expected, state::shown_value(*list));
  for (const Json& layer : *list) {
    QRL_REQUIRE(layer.is_number_unsigned() && layer.get<std::uint64_t>() < static_cast<std::uint64_t>(num_layers) &&
                    std::find(layers.begin(), layers.end(), layer.get<std::int64_t>()) == layers.end(),
                reader.at("mlp_only_layers"), expected, state::shown_value(*list));
    layers.push_back(layer.get<std::int64_t>());
  }
  return layers;
}

void refuse_shared_experts(const ConfigReader& reader) {
  for (const char* key : {"shared_expert_intermediate_size", "n_shared_experts", "num_shared_experts"}) {
    const Json* value = reader.find(key);
    QRL_REQUIRE(value == nullptr || *value == 0, reader.at(key), "0, or no such key", state::shown_value(*value),
                "shared experts are not supported");
  }
}

}  // namespace

void read_experts(const ConfigReader& reader, ModelConfig& config) {
  config.num_experts = read_num_experts(reader);
  config.num_experts_per_tok = reader.size("num_experts_per_tok", kMaxExperts);
  QRL_REQUIRE(config.num_experts_per_tok <= config.num_experts, reader.at("num_experts_per_tok"),
              "at most num_experts (" + std::to_string(config.num_experts) + ")",
              std::to_string(config.num_experts_per_tok));
  config.moe_intermediate_size = reader.size("moe_intermediate_size", kMaxWidth);
  config.norm_topk_prob = reader.boolean("norm_topk_prob");
  if (reader.find("decoder_sparse_step") != nullptr)
    config.decoder_sparse_step = reader.size("decoder_sparse_step", config.num_hidden_layers);
  config.mlp_only_layers = read_dense_layers(reader, config.num_hidden_layers);
  QRL_REQUIRE(config.num_sparse_layers() > 0, reader.at("mlp_only_layers"), "at least one layer with experts",
              "only dense layers", "use model_type qwen3 for a model without experts");
  if (const Json* loss = reader.find("router_aux_loss_coef")) {
    QRL_REQUIRE(loss->is_number() && loss->get<double>() >= 0 && loss->get<double>() <= 1e6,
                reader.at("router_aux_loss_coef"), "a number from 0 to 1e6", state::shown_value(*loss));
    config.router_aux_loss_coef = loss->get<float>();
  }
  if (reader.find("output_router_logits") != nullptr)
    config.output_router_logits = reader.boolean("output_router_logits");
  refuse_shared_experts(reader);
}

void write_experts(const ModelConfig& config, Json& root) {
  root["num_experts"] = root["num_local_experts"] = config.num_experts;
  root["num_experts_per_tok"] = config.num_experts_per_tok;
  root["moe_intermediate_size"] = config.moe_intermediate_size;
  root["decoder_sparse_step"] = config.decoder_sparse_step;
  root["mlp_only_layers"] = config.mlp_only_layers;
  root["norm_topk_prob"] = config.norm_topk_prob;
  root["router_aux_loss_coef"] = shortest_decimal(config.router_aux_loss_coef);
  root["output_router_logits"] = config.output_router_logits;
}

std::string describe_experts(const ModelConfig& config) {
  if (!config.has_experts()) return {};
  return ", " + std::to_string(config.num_experts) + " experts of " + std::to_string(config.moe_intermediate_size) +
         ", " + std::to_string(config.num_experts_per_tok) + " per token, in " +
         std::to_string(config.num_sparse_layers()) + " layers, " + std::to_string(num_active_parameters(config)) +
         " active parameters";
}

}  // namespace qrl::model
