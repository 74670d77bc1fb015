#include "model/config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "model/config_reader.h"
#include "state/file.h"
#include "state/json.h"

namespace qrl::model {

namespace {

using base::DType;
using Json = nlohmann::json;

// Limits, like kMaxWidth, that keep products of sizes below 2^63.
constexpr std::int64_t kMaxVocab = std::int64_t{1} << 24;
constexpr std::int64_t kMaxHeads = 4096;
constexpr std::int64_t kMaxHeadDim = 4096;
constexpr std::int64_t kMaxLayers = 4096;
constexpr std::int64_t kMaxPositions = std::int64_t{1} << 30;

struct FamilyNames {
  Family family;
  const char* model_type;
  const char* architecture;
};
constexpr std::array<FamilyNames, 4> kFamilies = {{{Family::qwen3, "qwen3", "Qwen3ForCausalLM"},
                                                   {Family::qwen2, "qwen2", "Qwen2ForCausalLM"},
                                                   {Family::llama, "llama", "LlamaForCausalLM"},
                                                   {Family::qwen3_moe, "qwen3_moe", "Qwen3MoeForCausalLM"}}};
constexpr const char* kFamilyWords = R"("qwen3", "qwen2", "llama" or "qwen3_moe")";

bool is_qwen3(Family family) { return family == Family::qwen3 || family == Family::qwen3_moe; }

const FamilyNames& names_of(Family family) {
  return *std::find_if(kFamilies.begin(), kFamilies.end(), [&](const FamilyNames& f) { return f.family == family; });
}

bool contains(std::span<const std::string_view> keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

using Reader = ConfigReader;
constexpr auto shown = state::shown_value;

double positive(const Json& value, double max, const std::string& where) {
  QRL_REQUIRE(value.is_number() && value.get<double>() > 0 && value.get<double>() <= max, where,
              "a number above 0 and at most " + Json(max).dump(), shown(value));
  return value.get<double>();
}

types::TokenId token_id(const Json& value, std::int64_t vocab_size, const std::string& where) {
  QRL_REQUIRE(value.is_number_unsigned() && value.get<std::uint64_t>() < static_cast<std::uint64_t>(vocab_size), where,
              "token ids from 0 to " + std::to_string(vocab_size - 1), shown(value));
  return value.get<types::TokenId>();
}

std::vector<types::TokenId> token_ids(const Json& value, std::int64_t vocab_size, const std::string& where) {
  if (!value.is_array()) return {token_id(value, vocab_size, where)};
  std::vector<types::TokenId> ids;
  for (const Json& id : value) {
    ids.push_back(token_id(id, vocab_size, where));
    QRL_REQUIRE(std::count(ids.begin(), ids.end(), ids.back()) == 1, where, "each token once", shown(value));
  }
  return ids;
}

/// Returns −1 if the value is absent, null or −1, as in Llama configs.
std::int64_t optional_token_id(const Reader& reader, const std::string& key, std::int64_t vocab_size) {
  const Json* value = reader.find(key);
  return value == nullptr || *value == -1 ? -1 : token_id(*value, vocab_size, reader.at(key));
}

Family read_family(const Reader& reader) {
  const Json& type = reader.get("model_type", kFamilyWords);
  const auto* names =
      std::find_if(kFamilies.begin(), kFamilies.end(), [&](const FamilyNames& f) { return type == f.model_type; });
  QRL_REQUIRE(names != kFamilies.end(), reader.at("model_type"), kFamilyWords, shown(type));
  reader.require_only("architectures", Json::array({names->architecture}));
  return names->family;
}

std::optional<double> rope_number(const Json& value, const char* key, double min, const std::string& where) {
  const auto found = value.find(key);
  if (found == value.end() || found->is_null()) return std::nullopt;
  QRL_REQUIRE(found->is_number() && found->get<double>() >= min && found->get<double>() <= 1e6, where + "." + key,
              "a number from " + Json(min).dump() + " to 1e6", shown(*found));
  return found->get<double>();
}

double required_rope_number(const Json& value, const char* key, double min, const std::string& where) {
  const auto number = rope_number(value, key, min, where);
  QRL_REQUIRE(number.has_value(), where + "." + key, "a number", "no value", "add it: this key has no default");
  return *number;
}

RopeScaling read_rope_scaling(const Reader& reader, const std::string& key, const Json& value) {
  const std::string where = reader.at(key);
  Json type = "default";
  for (const char* name : {"rope_type", "type"}) {
    if (value.contains(name)) type = value[name];
  }
  RopeScaling scaling;
  std::vector<std::string_view> known = {"rope_type", "type", "rope_theta", "partial_rotary_factor"};
  if (type == "llama3") {
    scaling.type = RopeType::llama3;
    known.insert(known.end(), {"factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"});
  } else if (type == "yarn") {
    scaling.type = RopeType::yarn;
    known.insert(known.end(), {"factor", "original_max_position_embeddings", "beta_fast", "beta_slow",
                               "attention_factor", "mscale", "mscale_all_dim", "truncate"});
  } else {
    QRL_REQUIRE(type == "default", where + ".rope_type",
                "\"default\", \"llama3\" or \"yarn\" (no other rope scaling is supported)", shown(type));
  }
  for (const auto& [name, field] : value.items()) {
    QRL_REQUIRE(contains(known, name), where + "." + name, "the keys of rope_type " + type.dump() + " only",
                "a key of a different rope_type");
  }
  if (const auto partial = value.find("partial_rotary_factor"); partial != value.end()) {
    QRL_REQUIRE(*partial == 1, where + ".partial_rotary_factor", "1 (partial rotary is not supported)",
                shown(*partial));
  }
  if (scaling.type == RopeType::plain) return scaling;
  scaling.factor = required_rope_number(value, "factor", 1, where);
  // The default is max_position_embeddings, as in transformers.
  const bool has_original = value.contains("original_max_position_embeddings");
  const Json original =
      has_original ? value["original_max_position_embeddings"] : reader.get("max_position_embeddings", "an integer");
  QRL_REQUIRE(original.is_number_unsigned() && original.get<std::uint64_t>() >= 1 &&
                  original.get<std::uint64_t>() <= static_cast<std::uint64_t>(kMaxPositions),
              where + ".original_max_position_embeddings", "a positive integer", shown(original));
  scaling.original_max_position_embeddings = original.get<std::int64_t>();
  if (scaling.type == RopeType::llama3) {
    scaling.low_freq_factor = required_rope_number(value, "low_freq_factor", 1e-6, where);
    scaling.high_freq_factor = required_rope_number(value, "high_freq_factor", 1e-6, where);
    QRL_REQUIRE(scaling.high_freq_factor > scaling.low_freq_factor, where + ".high_freq_factor",
                "more than low_freq_factor", Json(scaling.high_freq_factor).dump());
    return scaling;
  }
  scaling.beta_fast = rope_number(value, "beta_fast", 1e-6, where).value_or(32);
  scaling.beta_slow = rope_number(value, "beta_slow", 1e-6, where).value_or(1);
  QRL_REQUIRE(scaling.beta_fast >= scaling.beta_slow, where + ".beta_fast", "at least beta_slow",
              Json(scaling.beta_fast).dump());
  scaling.attention_factor = rope_number(value, "attention_factor", 1e-6, where);
  scaling.mscale = rope_number(value, "mscale", 1e-6, where);
  scaling.mscale_all_dim = rope_number(value, "mscale_all_dim", 1e-6, where);
  if (const auto truncate = value.find("truncate"); truncate != value.end() && !truncate->is_null()) {
    QRL_REQUIRE(truncate->is_boolean(), where + ".truncate", "true or false", shown(*truncate));
    scaling.truncate = truncate->get<bool>();
  }
  return scaling;
}

/// Reads transformers 4's form (rope_theta, rope_scaling) or 5's (rope_parameters).
void read_rope(const Reader& reader, ModelConfig& config) {
  constexpr double kMaxTheta = 1e12;
  std::vector<double> thetas;
  std::vector<RopeScaling> scalings;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Json* value = reader.find(key);
    if (value == nullptr) continue;
    QRL_REQUIRE(value->is_object(), reader.at(key), "an object", shown(*value));
    scalings.push_back(read_rope_scaling(reader, key, *value));
    const auto theta = value->find("rope_theta");
    if (theta != value->end())
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
  if (!scalings.empty()) config.rope_scaling = scalings[0];
  QRL_REQUIRE(config.rope_scaling.type != RopeType::yarn || config.rope_theta > 1, reader.at("rope_theta"),
              "more than 1 with yarn", Json(config.rope_theta).dump());
}

Json rope_scaling_json(const RopeScaling& scaling) {
  if (scaling.type == RopeType::plain) return nullptr;
  Json value = {{"factor", scaling.factor},
                {"original_max_position_embeddings", scaling.original_max_position_embeddings}};
  if (scaling.type == RopeType::llama3) {
    value["rope_type"] = "llama3";
    value["low_freq_factor"] = scaling.low_freq_factor;
    value["high_freq_factor"] = scaling.high_freq_factor;
    return value;
  }
  value["rope_type"] = "yarn";
  value["beta_fast"] = scaling.beta_fast;
  value["beta_slow"] = scaling.beta_slow;
  value["truncate"] = scaling.truncate;
  if (scaling.attention_factor) value["attention_factor"] = *scaling.attention_factor;
  if (scaling.mscale) value["mscale"] = *scaling.mscale;
  if (scaling.mscale_all_dim) value["mscale_all_dim"] = *scaling.mscale_all_dim;
  return value;
}

DType read_dtype(const Reader& reader) {
  const Json* dtype = reader.find("dtype");
  const Json* torch_dtype = reader.find("torch_dtype");
  QRL_REQUIRE(dtype == nullptr || torch_dtype == nullptr || *dtype == *torch_dtype, reader.at("dtype"),
              "the same as torch_dtype", "a different dtype");
  const Json& value =
      dtype != nullptr ? *dtype : reader.get("torch_dtype", "float32, bfloat16 or float16, here or as dtype");
  if (value == "float32") return DType::f32;
  QRL_REQUIRE(value == "bfloat16" || value == "float16", reader.at(dtype != nullptr ? "dtype" : "torch_dtype"),
              "\"float32\", \"bfloat16\" or \"float16\"", shown(value));
  return DType::bf16;
}

std::string float16_note(std::string_view json_text, const std::string& where) {
  const Reader reader(json_text, where);
  const Json* dtype = reader.find("dtype");
  if (dtype == nullptr) dtype = reader.find("torch_dtype");
  if (dtype == nullptr || *dtype != "float16") return {};
  return "float16 weights are read exactly, but exported as bfloat16 (export --dtype float32 keeps every bit)";
}

/// Returns whether any layer has a sliding window. If layer_types is present, it decides. Otherwise, if windows are
/// enabled, layer max_window_layers and all later layers have a window.
bool has_sliding_layers(const Reader& reader, const ModelConfig& config) {
  const bool is_switched = reader.find("use_sliding_window") != nullptr;
  const bool is_on = is_switched && reader.boolean("use_sliding_window");
  if (const Json* types = reader.find("layer_types")) {
    const auto is_known = [](const Json& type) { return type == "full_attention" || type == "sliding_attention"; };
    QRL_REQUIRE(types->is_array() && types->size() == static_cast<std::size_t>(config.num_hidden_layers) &&
                    std::all_of(types->begin(), types->end(), is_known),
                reader.at("layer_types"), "\"full_attention\" for each layer", shown(*types));
    return std::any_of(types->begin(), types->end(), [](const Json& type) { return type == "sliding_attention"; });
  }
  // Without use_sliding_window, windows are off in Qwen's configs and on in Llama's.
  if (!is_on && (is_switched || config.family != Family::llama || reader.find("sliding_window") == nullptr))
    return false;
  const Json* first = reader.find("max_window_layers");
  return first == nullptr || !first->is_number_unsigned() ||
         first->get<std::uint64_t>() < static_cast<std::uint64_t>(config.num_hidden_layers);
}

void refuse_sliding_window(const Reader& reader, const ModelConfig& config) {
  if (!has_sliding_layers(reader, config)) return;
  const Json* window = reader.find("sliding_window");
  const std::string max_positions = std::to_string(config.max_position_embeddings);
  QRL_REQUIRE(window != nullptr && window->is_number_unsigned() &&
                  window->get<std::uint64_t>() >= static_cast<std::uint64_t>(config.max_position_embeddings),
              reader.at("sliding_window"),
              "an unused window (use_sliding_window false, max_window_layers of at least " +
                  std::to_string(config.num_hidden_layers) +
                  ", or only full_attention in layer_types), or a window of at least max_position_embeddings (" +
                  max_positions + ")",
              window == nullptr ? "a window in use, of unspecified length" : shown(*window) + ", in use",
              "sliding windows are not supported");
}

void refuse_unsupported(const Reader& reader, const ModelConfig& config) {
  QRL_REQUIRE(reader.find("quantization_config") == nullptr, reader.at("quantization_config"), "an unquantized model",
              "a quantized model", "use the bf16 or fp32 model that it was made from");
  for (const std::string_view name : kForeignKeys) {
    if (config.has_experts() && contains(kExpertKeys, name)) continue;
    const std::string key(name);
    const Json* value = reader.find(key);
    QRL_REQUIRE(value == nullptr || *value == false, reader.at(key), "false, or no such key", shown(*value),
                "models with this key are not supported");
  }
  reader.require_only("hidden_act", "silu");
  reader.require_only("mlp_bias", false);
  reader.require_only("attention_dropout", 0);
  reader.require_only("partial_rotary_factor", 1);
  reader.require_only("rope_interleaved", false);
  refuse_sliding_window(reader, config);
}

std::int64_t read_head_dim(const Reader& reader, const ModelConfig& config) {
  const std::int64_t width = config.hidden_size;
  const std::int64_t heads = config.num_attention_heads;
  // transformers' LlamaConfig refuses a hidden_size that is not a multiple of the number of heads, even if head_dim is
  // given.
  const bool from_width = !is_qwen3(config.family) && reader.find("head_dim") == nullptr;
  QRL_REQUIRE(width % heads == 0 || !(from_width || config.family == Family::llama), reader.at("hidden_size"),
              "a multiple of num_attention_heads", std::to_string(width) + " with " + std::to_string(heads) + " heads");
  const std::int64_t head_dim = from_width ? width / heads : reader.size("head_dim", kMaxHeadDim);
  QRL_REQUIRE(head_dim % 2 == 0, reader.at("head_dim"), "an even number (rotary embeddings rotate pairs)",
              std::to_string(head_dim));
  return head_dim;
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + base::quoted(name);
  return text;
}

void read_attention_bias(const Reader& reader, ModelConfig& config) {
  if (config.family == Family::qwen2) {
    reader.require_only("attention_bias", true);
    config.qkv_bias = true;
    return;
  }
  if (reader.find("attention_bias") == nullptr) return;
  config.qkv_bias = config.o_bias = reader.boolean("attention_bias");
}

}  // namespace

double shortest_decimal(float value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  double decimal = 0;
  std::from_chars(text.data(), end, decimal);
  return decimal;
}

ModelConfig parse_config(std::string_view json_text, const std::string& where) {
  const Reader reader(json_text, where);
  ModelConfig config;
  config.family = read_family(reader);
  config.qk_norm = is_qwen3(config.family);
  read_attention_bias(reader, config);
  config.vocab_size = reader.size("vocab_size", kMaxVocab);
  config.hidden_size = reader.size("hidden_size", kMaxWidth);
  config.num_hidden_layers = reader.size("num_hidden_layers", kMaxLayers);
  config.num_attention_heads = reader.size("num_attention_heads", kMaxHeads);
  config.num_key_value_heads = reader.size("num_key_value_heads", kMaxHeads);
  QRL_REQUIRE(config.num_attention_heads % config.num_key_value_heads == 0, reader.at("num_key_value_heads"),
              "a divisor of num_attention_heads (" + std::to_string(config.num_attention_heads) + ")",
              std::to_string(config.num_key_value_heads));
  config.head_dim = read_head_dim(reader, config);
  config.intermediate_size = reader.size("intermediate_size", kMaxWidth);
  config.max_position_embeddings = reader.size("max_position_embeddings", kMaxPositions);
  if (reader.find("initializer_range") != nullptr) {
    config.initializer_range =
        static_cast<float>(positive(reader.get("initializer_range", "a number"), 10, reader.at("initializer_range")));
  }
  const double eps = positive(reader.get("rms_norm_eps", "a number"), 0.1, reader.at("rms_norm_eps"));
  config.rms_norm_eps = static_cast<float>(eps);
  QRL_REQUIRE(std::isnormal(config.rms_norm_eps), reader.at("rms_norm_eps"), "a number that fp32 can represent",
              Json(eps).dump());
  read_rope(reader, config);
  config.tie_word_embeddings = reader.boolean("tie_word_embeddings");
  config.dtype = read_dtype(reader);
  if (const Json* eos = reader.find("eos_token_id")) {
    config.eos_token_ids = token_ids(*eos, config.vocab_size, reader.at("eos_token_id"));
  }
  config.bos_token_id = optional_token_id(reader, "bos_token_id", config.vocab_size);
  config.pad_token_id = optional_token_id(reader, "pad_token_id", config.vocab_size);
  if (config.family == Family::qwen3_moe) read_experts(reader, config);
  refuse_unsupported(reader, config);
  return config;
}

std::vector<std::string> unknown_config_keys(std::string_view json_text, const std::string& where) {
  const Reader reader(json_text, where);
  const Json* type = reader.find("model_type");
  const bool of_experts = type != nullptr && *type == names_of(Family::qwen3_moe).model_type;
  std::vector<std::string> unknown;
  for (const auto& [key, value] : reader.root().items()) {
    if (!value.is_null() && !key.starts_with('_') && !contains(kReadKeys, key) && !contains(kHarmlessKeys, key) &&
        !(of_experts && contains(kExpertKeys, key)))
      unknown.push_back(key);
  }
  return unknown;
}

ModelConfig read_config(const std::filesystem::path& file) {
  const std::string where = state::shown(file);
  const std::string text = state::read_text(file, kMaxConfig_bytes);
  ModelConfig config = parse_config(text, where);
  const std::vector<std::string> unknown = unknown_config_keys(text, where);
  if (!unknown.empty()) base::log_once(where, where + ": ignored unknown keys: " + join(unknown));
  const std::string float16 = float16_note(text, where);
  if (!float16.empty()) base::log_once(where + ": float16", where + ": " + float16);
  return config;
}

std::optional<std::vector<types::TokenId>> parse_generation_eos(std::string_view json_text, const std::string& where,
                                                                std::int64_t vocab_size) {
  const Reader reader(json_text, where);
  const Json* eos = reader.find("eos_token_id");
  if (eos == nullptr) return std::nullopt;
  return token_ids(*eos, vocab_size, reader.at("eos_token_id"));
}

std::string stop_strings_note(std::string_view json_text, const std::string& where) {
  return Reader(json_text, where).find("stop_strings") == nullptr
             ? ""
             : "stop_strings are ignored: only end tokens end a sequence";
}

std::string config_json(const ModelConfig& config) {
  const FamilyNames& names = names_of(config.family);
  const Json dtype = config.dtype == DType::f32 ? "float32" : "bfloat16";
  const auto id_or_null = [](std::int64_t id) { return id < 0 ? Json() : Json(id); };
  Json root = {
      {"architectures", Json::array({names.architecture})},
      {"attention_dropout", 0.0},
      {"bos_token_id", id_or_null(config.bos_token_id)},
      {"dtype", dtype},
      {"eos_token_id", nullptr},
      {"head_dim", config.head_dim},
      {"hidden_act", "silu"},
      {"hidden_size", config.hidden_size},
      {"initializer_range", shortest_decimal(config.initializer_range)},
      {"intermediate_size", config.intermediate_size},
      {"max_position_embeddings", config.max_position_embeddings},
      {"model_type", names.model_type},
      {"num_attention_heads", config.num_attention_heads},
      {"num_hidden_layers", config.num_hidden_layers},
      {"num_key_value_heads", config.num_key_value_heads},
      {"pad_token_id", id_or_null(config.pad_token_id)},
      {"rms_norm_eps", shortest_decimal(config.rms_norm_eps)},
      {"rope_theta", config.rope_theta},
      {"tie_word_embeddings", config.tie_word_embeddings},
      {"torch_dtype", dtype},
      {"use_cache", true},
      {"vocab_size", config.vocab_size},
  };
  Json rope = rope_scaling_json(config.rope_scaling);
  if (!rope.is_null()) root["rope_scaling"] = rope;
  else rope["rope_type"] = "default";
  rope["rope_theta"] = config.rope_theta;
  root["rope_parameters"] = rope;
  if (config.eos_token_ids.size() == 1) root["eos_token_id"] = config.eos_token_ids[0];
  else if (!config.eos_token_ids.empty()) root["eos_token_id"] = config.eos_token_ids;
  if (config.family != Family::qwen2) root["attention_bias"] = config.o_bias;
  if (config.family == Family::llama) root["mlp_bias"] = false;
  else root["use_sliding_window"] = false;
  if (config.has_experts()) write_experts(config, root);
  return root.dump(2) + "\n";
}

std::string describe_generation(const std::filesystem::path& file) {
  const std::string where = state::shown(file), text = state::read_text(file, kMaxConfig_bytes);
  const std::filesystem::path beside = file.parent_path() / "config.json";
  const bool known = std::filesystem::exists(beside);
  const auto eos = parse_generation_eos(text, where, known ? read_config(beside).vocab_size : std::int64_t{1} << 31);
  std::string line = where + ": ";
  line += eos ? "sequences end with " + Json(*eos).dump() : "no end token: those of config.json are used";
  const std::string stop_strings = stop_strings_note(text, where);
  return line + (known ? "" : "; no config.json in its folder to check ids against") +
         (stop_strings.empty() ? "" : "; " + stop_strings) + "; other keys are kept for export";
}

std::string describe_config(const std::filesystem::path& file) {
  const std::string where = state::shown(file);
  const std::string text = state::read_text(file, kMaxConfig_bytes);
  const ModelConfig config = parse_config(text, where);
  std::string line =
      where + ": " + names_of(config.family).model_type + ", " + std::to_string(num_parameters(config)) +
      " parameters: vocabulary " + std::to_string(config.vocab_size) + ", width " + std::to_string(config.hidden_size) +
      ", " + std::to_string(config.num_hidden_layers) + " layers, " + std::to_string(config.num_attention_heads) + "/" +
      std::to_string(config.num_key_value_heads) + " heads of " + std::to_string(config.head_dim) + ", ffn " +
      std::to_string(config.intermediate_size) + describe_experts(config) + ", " +
      std::to_string(config.max_position_embeddings) + " positions, rope theta " + Json(config.rope_theta).dump() +
      (config.rope_scaling.type == RopeType::plain
           ? ""
           : ", rope scaling " + rope_scaling_json(config.rope_scaling).dump()) +
      ", " + (config.qkv_bias ? config.o_bias ? "biases on q, k, v and o, " : "biases on q, k and v, " : "") +
      (config.tie_word_embeddings ? "tied" : "untied") + " embeddings, ";
  const std::string float16 = float16_note(text, where);
  line += float16.empty() ? std::string(base::name(config.dtype)) : "F16; " + float16;
  const std::vector<std::string> unknown = unknown_config_keys(text, where);
  if (!unknown.empty()) line += "; unknown keys, ignored: " + join(unknown);
  return line;
}

}  // namespace qrl::model
