#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/config.h"
#include "model/config_reader.h"
#include "state/json.h"

namespace qrl::model {

namespace {

using Json = nlohmann::json;

constexpr auto kMaxRopePositions = static_cast<std::uint64_t>(kMaxPositions);

std::optional<double> rope_number(const Json& value, const char* key, double min, const std::string& where) {
  const auto found = value.find(key);
  if (found == value.end() || found->is_null()) return std::nullopt;
  QRL_REQUIRE(found->is_number() && found->get<double>() >= min && found->get<double>() <= 1e6, where + "." + key,
              "a number from " + Json(min).dump() + " to 1e6", state::shown_value(*found));
  return found->get<double>();
}

double required_rope_number(const Json& value, const char* key, double min, const std::string& where) {
  const auto number = rope_number(value, key, min, where);
  QRL_REQUIRE(number.has_value(), where + "." + key, "a number", "no value", "add it: this key has no default");
  return *number;
}

std::int64_t positions(const Json& value, const std::string& where) {
  QRL_REQUIRE(
      value.is_number_unsigned() && value.get<std::uint64_t>() >= 1 && value.get<std::uint64_t>() <= kMaxRopePositions,
      where, "a positive integer", state::shown_value(value));
  return value.get<std::int64_t>();
}

/// Returns original_max_position_embeddings; its default is max_position_embeddings, as in transformers.
std::int64_t original_positions(const ConfigReader& reader, const Json& value, const std::string& where) {
  const char* key = "original_max_position_embeddings";
  return positions(value.contains(key) ? value[key] : reader.get("max_position_embeddings", "an integer"),
                   where + "." + key);
}

void read_llama3(const Json& value, const std::string& where, RopeScaling& scaling) {
  scaling.low_freq_factor = required_rope_number(value, "low_freq_factor", 1e-6, where);
  scaling.high_freq_factor = required_rope_number(value, "high_freq_factor", 1e-6, where);
  QRL_REQUIRE(scaling.high_freq_factor > scaling.low_freq_factor, where + ".high_freq_factor",
              "more than low_freq_factor", Json(scaling.high_freq_factor).dump());
}

void read_yarn(const Json& value, const std::string& where, RopeScaling& scaling) {
  scaling.beta_fast = rope_number(value, "beta_fast", 1e-6, where).value_or(32);
  scaling.beta_slow = rope_number(value, "beta_slow", 1e-6, where).value_or(1);
  QRL_REQUIRE(scaling.beta_fast >= scaling.beta_slow, where + ".beta_fast", "at least beta_slow",
              Json(scaling.beta_fast).dump());
  scaling.attention_factor = rope_number(value, "attention_factor", 1e-6, where);
  scaling.mscale = rope_number(value, "mscale", 1e-6, where);
  scaling.mscale_all_dim = rope_number(value, "mscale_all_dim", 1e-6, where);
  if (const auto truncate = value.find("truncate"); truncate != value.end() && !truncate->is_null()) {
    QRL_REQUIRE(truncate->is_boolean(), where + ".truncate", "true or false", state::shown_value(*truncate));
    scaling.truncate = truncate->get<bool>();
  }
}

std::vector<double> read_factors(const Json& value, const char* key, std::int64_t count, const std::string& where) {
  const auto found = value.find(key);
  const std::string expected = "a list of " + std::to_string(count) + " numbers from 1e-6 to 1e6";
  QRL_REQUIRE(found != value.end() && found->is_array() && static_cast<std::int64_t>(found->size()) == count,
              where + "." + key, expected,
              found == value.end() ? "no such key"
                                   : state::shown_value(*found) + " of " + std::to_string(found->size()) + " entries");
  std::vector<double> factors;
  for (const Json& factor : *found) {
    QRL_REQUIRE(factor.is_number() && factor.get<double>() >= 1e-6 && factor.get<double>() <= 1e6, where + "." + key,
                expected, state::shown_value(factor));
    factors.push_back(factor.get<double>());
  }
  return factors;
}

/// Reads longrope. The original length stands in the root of config.json, or beside the factors; its default is 4096,
/// as in transformers.
void read_longrope(const ConfigReader& reader, const Json& value, const std::string& where, const ModelConfig& config,
                   RopeScaling& scaling) {
  const char* key = "original_max_position_embeddings";
  const Json* original = reader.find(key);
  scaling.original_max_position_embeddings = original != nullptr   ? positions(*original, reader.at(key))
                                             : value.contains(key) ? positions(value[key], where + "." + key)
                                                                   : 4096;
  scaling.short_factor = read_factors(value, "short_factor", config.rotary_dim() / 2, where);
  scaling.long_factor = read_factors(value, "long_factor", config.rotary_dim() / 2, where);
  scaling.attention_factor = rope_number(value, "attention_factor", 1e-6, where);
  scaling.longest = config.max_position_embeddings;
  QRL_REQUIRE(scaling.original_max_position_embeddings <= scaling.longest, reader.at(key),
              "at most max_position_embeddings (" + std::to_string(scaling.longest) + ")",
              std::to_string(scaling.original_max_position_embeddings));
}

struct KnownRope {
  const char* word;
  RopeType type;
  std::vector<std::string_view> keys;
};

const KnownRope& known_rope(const Json& type, const FamilySpec& family, const std::string& where) {
  static const std::vector<KnownRope>& known = *new std::vector<KnownRope>{
      {"default", RopeType::plain, {}},
      {"linear", RopeType::linear, {"factor"}},
      {"llama3",
       RopeType::llama3,
       {"factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"}},
      {"yarn",
       RopeType::yarn,
       {"factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "attention_factor", "mscale",
        "mscale_all_dim", "truncate"}},
      {"longrope",
       RopeType::longrope,
       {"original_max_position_embeddings", "short_factor", "long_factor", "attention_factor"}},
      {"su", RopeType::longrope, {"short_factor", "long_factor"}}};
  const auto found = std::ranges::find_if(known, [&](const KnownRope& each) { return type == each.word; });
  const bool fits = found != known.end() &&
                    (found->type == RopeType::plain || (found->type == RopeType::longrope) == family.longrope);
  QRL_REQUIRE(
      fits, where + ".rope_type",
      std::string(family.longrope ? R"("default" or "longrope")" : R"("default", "linear", "llama3" or "yarn")") +
          " (no other rope scaling is supported)",
      state::shown_value(type));
  return *found;
}

double rotating_fraction(const Json& value, const std::string& where) {
  QRL_REQUIRE(value.is_number() && value.get<double>() > 0 && value.get<double>() <= 1, where,
              "a number above 0 and at most 1", state::shown_value(value));
  return value.get<double>();
}

RopeScaling read_rope_scaling(const ConfigReader& reader, const std::string& key, const Json& value,
                              const FamilySpec& family, const ModelConfig& config) {
  const std::string where = reader.at(key);
  Json type = "default";
  for (const char* name : {"rope_type", "type"}) {
    if (value.contains(name)) type = value[name];
  }
  const KnownRope& known = known_rope(type, family, where);
  constexpr std::string_view kAlways[] = {"rope_type", "type", "rope_theta", "partial_rotary_factor"};
  constexpr std::string_view kOfImages[] = {"mrope_section", "mrope_interleaved"};
  for (const auto& [name, field] : value.items()) {
    const bool is_of_images = family.delta_layers && contains(kOfImages, name);
    QRL_REQUIRE(is_of_images || contains(kAlways, name) || contains(known.keys, name), where + "." + name,
                "the keys of rope_type " + type.dump() + " only", "a key of a different rope_type");
  }
  RopeScaling scaling;
  scaling.type = known.type;
  if (scaling.type == RopeType::plain) return scaling;
  if (scaling.type == RopeType::longrope) {
    read_longrope(reader, value, where, config, scaling);
    return scaling;
  }
  scaling.factor = required_rope_number(value, "factor", 1, where);
  if (scaling.type == RopeType::linear) return scaling;
  scaling.original_max_position_embeddings = original_positions(reader, value, where);
  if (scaling.type == RopeType::llama3) read_llama3(value, where, scaling);
  else read_yarn(value, where, scaling);
  return scaling;
}

/// Reads partial_rotary_factor, which may stand in the root and in both forms of rope's keys. All must be equal.
void read_rotating_fraction(const ConfigReader& reader, const FamilySpec& family, ModelConfig& config) {
  std::vector<std::pair<std::string, const Json*>> places;
  if (const Json* root = reader.find("partial_rotary_factor"))
    places.emplace_back(reader.at("partial_rotary_factor"), root);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Json* value = reader.find(key);
    if (value == nullptr || !value->is_object()) continue;
    const Json& common = common_rope(family, *value);
    if (const auto found = common.find("partial_rotary_factor"); found != common.end() && !found->is_null())
      places.emplace_back(reader.at(key) + ".partial_rotary_factor", &*found);
  }
  for (const auto& [where, value] : places) {
    QRL_REQUIRE(family.partial_rotary || *value == 1, where, "1 (partial rotary is not supported in this family)",
                state::shown_value(*value));
    config.partial_rotary_factor = rotating_fraction(*value, where);
    QRL_REQUIRE(*value == *places.front().second, where, "the same as " + places.front().first,
                state::shown_value(*value));
  }
  QRL_REQUIRE(config.rotary_dim() % 2 == 0 && config.rotary_dim() > 0, reader.at("partial_rotary_factor"),
              "an even number of elements of each head (rotary embeddings rotate pairs)",
              std::to_string(config.rotary_dim()) + " of head_dim " + std::to_string(config.head_dim));
}

/// Reads no_rope_layers, a flag a layer: 0 means no rotary positions. Without it each no_rope_layer_interval-th layer
/// has none; its default is 4, as in transformers.
void read_layers_without_rope(const ConfigReader& reader, ModelConfig& config) {
  const std::int64_t num_layers = config.num_hidden_layers;
  if (const Json* flags = reader.find("no_rope_layers")) {
    const std::string expected = "a list of 0 or 1 for each of " + std::to_string(num_layers) + " layers";
    QRL_REQUIRE(flags->is_array() && static_cast<std::int64_t>(flags->size()) == num_layers,
                reader.at("no_rope_layers"), expected, state::shown_value(*flags));
    for (std::int64_t layer = 0; layer < num_layers; ++layer) {
      const Json& flag = (*flags)[static_cast<std::size_t>(layer)];
      QRL_REQUIRE(flag == 0 || flag == 1, reader.at("no_rope_layers"), expected, state::shown_value(flag));
      if (flag == 0) config.no_rope_layers.push_back(layer);
    }
    return;
  }
  const std::int64_t interval =
      reader.find("no_rope_layer_interval") == nullptr ? 4 : reader.size("no_rope_layer_interval", kMaxWidth);
  for (std::int64_t layer = interval - 1; layer < num_layers; layer += interval) config.no_rope_layers.push_back(layer);
}

/// Returns the keys of rope_scaling but rope_type; null without scaling.
Json scaling_json(const RopeScaling& scaling) {
  Json value;
  if (scaling.type == RopeType::plain) return value;
  if (scaling.type == RopeType::longrope) {
    value = {{"short_factor", scaling.short_factor}, {"long_factor", scaling.long_factor}};
    if (scaling.attention_factor) value["attention_factor"] = *scaling.attention_factor;
    return value;
  }
  value = {{"factor", scaling.factor}};
  if (scaling.type == RopeType::linear) return value;
  value["original_max_position_embeddings"] = scaling.original_max_position_embeddings;
  if (scaling.type == RopeType::llama3) {
    value["low_freq_factor"] = scaling.low_freq_factor;
    value["high_freq_factor"] = scaling.high_freq_factor;
    return value;
  }
  value["beta_fast"] = scaling.beta_fast;
  value["beta_slow"] = scaling.beta_slow;
  value["truncate"] = scaling.truncate;
  if (scaling.attention_factor) value["attention_factor"] = *scaling.attention_factor;
  if (scaling.mscale) value["mscale"] = *scaling.mscale;
  if (scaling.mscale_all_dim) value["mscale_all_dim"] = *scaling.mscale_all_dim;
  return value;
}

const char* rope_word(RopeType type) {
  switch (type) {
    case RopeType::plain:
      return "default";
    case RopeType::llama3:
      return "llama3";
    case RopeType::yarn:
      return "yarn";
    case RopeType::linear:
      return "linear";
    case RopeType::longrope:
      break;
  }
  return "longrope";
}

}  // namespace

void read_rope(const ConfigReader& reader, const FamilySpec& family, ModelConfig& config) {
  constexpr double kMaxTheta = 1e12;
  read_rotating_fraction(reader, family, config);
  if (family.layers_without_rope) read_layers_without_rope(reader, config);
  std::vector<double> thetas;
  std::vector<RopeScaling> scalings;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Json* root = reader.find(key);
    if (root == nullptr) continue;
    QRL_REQUIRE(root->is_object(), reader.at(key), "an object", state::shown_value(*root));
    const Json& value = common_rope(family, *root);
    QRL_REQUIRE(value.is_object(), reader.at(key), "an object a kind of layer", state::shown_value(value));
    scalings.push_back(read_rope_scaling(reader, key, value, family, config));
    const auto theta = value.find("rope_theta");
    if (theta != value.end())
      thetas.push_back(positive(*theta, kMaxTheta, reader.at(std::string(key) + ".rope_theta")));
  }
  if (const Json* theta = reader.find("rope_theta"))
    thetas.push_back(positive(*theta, kMaxTheta, reader.at("rope_theta")));
  QRL_REQUIRE(!thetas.empty(), reader.at("rope_theta"), "a number here or in rope_parameters", "no value",
              "add it: this key has no default");
  QRL_REQUIRE(std::count(thetas.begin(), thetas.end(), thetas[0]) == static_cast<std::ptrdiff_t>(thetas.size()),
              reader.at("rope_theta"), "the same value in rope_theta and rope_parameters", "different values");
  QRL_REQUIRE(scalings.size() < 2 || scalings[0] == scalings[1], reader.at("rope_scaling"),
              "the same as rope_parameters", "a different rope scaling");
  config.rope_theta = thetas[0];
  read_sliding_rope(reader, family, config);
  if (!scalings.empty()) config.rope_scaling = scalings[0];
  QRL_REQUIRE(config.rope_scaling.type != RopeType::yarn || config.rope_theta > 1, reader.at("rope_theta"),
              "more than 1 with yarn", Json(config.rope_theta).dump());
  if (config.rope_scaling.type == RopeType::longrope)
    config.max_position_embeddings = config.rope_scaling.original_max_position_embeddings;
}

void write_rope(const ModelConfig& config, const FamilySpec& family, Json& root) {
  const RopeScaling& scaling = config.rope_scaling;
  Json rope = scaling_json(scaling);
  if (scaling.type == RopeType::longrope) {  // transformers 4 takes these three keys only
    root["rope_scaling"] = rope;
    root["rope_scaling"]["type"] = rope_word(scaling.type);
    root["max_position_embeddings"] = scaling.longest;
    root["original_max_position_embeddings"] = rope["original_max_position_embeddings"] =
        scaling.original_max_position_embeddings;
  } else if (!rope.is_null()) {
    root["rope_scaling"] = rope;
    root["rope_scaling"]["rope_type"] = rope_word(scaling.type);
  }
  rope["rope_type"] = rope_word(scaling.type);
  rope["rope_theta"] = config.rope_theta;
  root["rope_theta"] = config.rope_theta;
  if (family.partial_rotary)
    root["partial_rotary_factor"] = rope["partial_rotary_factor"] = config.partial_rotary_factor;
  root["rope_parameters"] = rope;
  write_sliding_rope(config, family, root);
  if (!family.layers_without_rope) return;
  Json flags = Json::array();
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    flags.push_back(config.rope(layer) == RopeKind::none ? 0 : 1);
  root["no_rope_layers"] = flags;
}

std::string describe_rope(const ModelConfig& config) {
  const RopeScaling& scaling = config.rope_scaling;
  std::string text = ", rope theta " + Json(config.rope_theta).dump();
  if (config.sliding_rope_theta > 0) text += " (" + Json(config.sliding_rope_theta).dump() + " in sliding layers)";
  if (scaling.type == RopeType::longrope) {
    text += ", longrope with the factors of short texts (" + std::to_string(scaling.longest) +
            " positions need other factors)";
  } else if (scaling.type != RopeType::plain) {
    Json value = scaling_json(scaling);
    value["rope_type"] = rope_word(scaling.type);
    text += ", rope scaling " + value.dump();
  }
  if (config.rotary_dim() != config.head_dim)
    text += ", " + std::to_string(config.rotary_dim()) + " of " + std::to_string(config.head_dim) + " elements rotate";
  if (!config.no_rope_layers.empty()) text += ", no rope in layers " + Json(config.no_rope_layers).dump();
  return text;
}

}  // namespace qrl::model
