#include <algorithm>
#include <vector>

#include "base/error.h"
#include "model/config.h"
#include "model/config_reader.h"
#include "model/families.h"

namespace qrl::model {

namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kAssumedWindow = 4096;
/// transformers' max_window_layers for a config of Qwen without that key.
constexpr std::uint64_t kFirstSliding = 28;
constexpr const char *kFull = "full_attention", *kSliding = "sliding_attention";
constexpr const char* kRopeKey = "rope_parameters";

bool assumes_window(const ConfigReader& reader, const FamilySpec& family) {
  return family.window == WindowRule::assumed && !reader.root().contains("sliding_window");
}

/// Returns the layers with a sliding window. If layer_types is present, it decides. Otherwise, if windows are enabled,
/// they are layer max_window_layers and all later layers.
std::vector<std::int64_t> sliding_layers(const ConfigReader& reader, const ModelConfig& config,
                                         const FamilySpec& family) {
  const bool is_switched = family.window != WindowRule::assumed && reader.find("use_sliding_window") != nullptr;
  const bool is_on = is_switched && reader.boolean("use_sliding_window");
  std::vector<std::int64_t> layers;
  if (const Json* types = reader.find("layer_types")) {
    const auto is_known = [](const Json& type) { return type == kFull || type == kSliding; };
    QRL_REQUIRE(types->is_array() && types->size() == static_cast<std::size_t>(config.num_hidden_layers) &&
                    std::all_of(types->begin(), types->end(), is_known),
                reader.at("layer_types"), "\"full_attention\" or \"sliding_attention\" for each layer",
                state::shown_value(*types));
    for (std::size_t layer = 0; layer < types->size(); ++layer)
      if ((*types)[layer] == kSliding) layers.push_back(static_cast<std::int64_t>(layer));
    QRL_REQUIRE(layers.empty() || is_on || family.window != WindowRule::switched, reader.at("use_sliding_window"),
                "true, as layer_types names sliding_attention", "false, or no such key");
    return layers;
  }
  if (family.window == WindowRule::pattern) {
    const char* key = "sliding_window_pattern";
    const bool is_given = family.has_key(key) && reader.find(key) != nullptr;
    const std::int64_t period = is_given ? reader.size(key, kMaxWidth) : family.window_pattern;
    for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
      if ((layer + 1) % period != 0) layers.push_back(layer);
    return layers;
  }
  const bool is_used =
      assumes_window(reader, family) || is_on ||
      (!is_switched && family.window != WindowRule::switched && reader.find("sliding_window") != nullptr);
  if (!is_used) return {};
  const Json* key = reader.find("max_window_layers");
  const std::uint64_t missing = family.window == WindowRule::switched && family.windows ? kFirstSliding : 0;
  const auto first = key == nullptr || !key->is_number_unsigned() ? missing : key->get<std::uint64_t>();
  for (auto layer = static_cast<std::int64_t>(std::min<std::uint64_t>(first, std::uint64_t{1} << 32));
       layer < config.num_hidden_layers; ++layer)
    layers.push_back(layer);
  return layers;
}

}  // namespace

void read_window(const ConfigReader& reader, const FamilySpec& family, ModelConfig& config) {
  const std::vector<std::int64_t> layers = sliding_layers(reader, config, family);
  if (layers.empty()) return;
  const Json assumed = kAssumedWindow;
  const Json* window = assumes_window(reader, family) ? &assumed : reader.find("sliding_window");
  QRL_REQUIRE(window != nullptr && window->is_number_unsigned() && *window != 0, reader.at("sliding_window"),
              "the number of tokens that a window holds",
              window == nullptr ? "a window in use, of unspecified length" : state::shown_value(*window));
  const auto longest = static_cast<std::uint64_t>(config.max_position_embeddings);
  if (window->get<std::uint64_t>() >= longest && family.sliding_theta == nullptr) return;
  QRL_REQUIRE(family.windows, reader.at("sliding_window"),
              "no window in use, or one of at least max_position_embeddings (" +
                  std::to_string(config.max_position_embeddings) + ")",
              state::shown_value(*window) + ", in use",
              std::string("windows of ") + family.model_type + " are not supported");
  config.sliding_window =
      static_cast<std::int64_t>(std::min<std::uint64_t>(window->get<std::uint64_t>(), kMaxPositions));
  config.sliding_layers = layers;
}

void write_window(const ModelConfig& config, const FamilySpec& family, Json& root) {
  if (family.window == WindowRule::assumed || family.window == WindowRule::pattern) root["sliding_window"] = nullptr;
  if (family.window == WindowRule::switched) root["use_sliding_window"] = !config.sliding_layers.empty();
  if (!config.sliding_layers.empty()) root["sliding_window"] = config.sliding_window;
  const bool is_listed =
      family.window == WindowRule::pattern || (family.window == WindowRule::switched && !config.sliding_layers.empty());
  if (!is_listed) return;  // transformers' other families have windows in all layers
  Json types = Json::array();
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    types.push_back(config.slides(layer) ? kSliding : kFull);
  root["layer_types"] = types;
}

const Json& common_rope(const FamilySpec& family, const Json& value) {
  return family.sliding_theta != nullptr && value.contains(kFull) ? value[kFull] : value;
}

void read_sliding_rope(const ConfigReader& reader, const FamilySpec& family, ModelConfig& config) {
  if (family.sliding_theta == nullptr) return;
  constexpr double kMaxTheta = 1e12;
  const Json* theta = reader.find(family.sliding_theta);
  std::string where = reader.at(family.sliding_theta);
  const Json* both = reader.find(kRopeKey);
  const bool is_nested = both != nullptr && both->is_object() && both->contains(kSliding);
  if (is_nested) {
    const Json& value = (*both)[kSliding];
    where = reader.at(std::string(kRopeKey)) + "." + kSliding;
    for (const auto& [name, field] : value.items()) {
      const bool is_plain = name == "rope_theta" || (name == "rope_type" && field == "default");
      QRL_REQUIRE(is_plain, where + "." + name, "rope_theta and rope_type \"default\" only", state::shown_value(field));
    }
    if (value.contains("rope_theta")) theta = &value["rope_theta"];
  }
  if (theta == nullptr) config.sliding_rope_theta = config.rope_theta;
  else config.sliding_rope_theta = positive(*theta, kMaxTheta, where);
}

void write_sliding_rope(const ModelConfig& config, const FamilySpec& family, Json& root) {
  if (family.sliding_theta == nullptr) return;
  if (!root.contains(family.sliding_theta)) root[family.sliding_theta] = config.sliding_rope_theta;
  const Json plain = {{"rope_type", "default"}, {"rope_theta", config.sliding_rope_theta}};
  root[kRopeKey] = Json{{kFull, root[kRopeKey]}, {kSliding, plain}};
}

std::string describe_window(const ModelConfig& config) {
  if (config.sliding_layers.empty()) return "";
  const bool are_all = std::ssize(config.sliding_layers) == config.num_hidden_layers;
  return ", windows of " + std::to_string(config.sliding_window) + " tokens in " +
         (are_all ? "all layers" : std::to_string(config.sliding_layers.size()) + " layers");
}

}  // namespace qrl::model
