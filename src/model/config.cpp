#include "model/config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>

#include "base/bf16.h"
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

using Reader = ConfigReader;
constexpr auto shown = state::shown_value;

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

const FamilySpec& read_family(const Reader& reader) {
  const std::string words = family_words();
  const Json& type = reader.get("model_type", words);
  const std::string word = type.is_string() ? type.get<std::string>() : "";
  const FamilySpec* family = find_family(word);
  const std::string_view missing = missing_part(word);
  QRL_REQUIRE(family != nullptr, reader.at("model_type"), words, shown(type),
              missing.empty() ? "" : "it has " + std::string(missing) + ", which are not supported");
  reader.require_only("architectures", Json::array({family->architecture}));
  return *family;
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

const char* gate_word(base::Gate gate) { return gate == base::Gate::silu ? "silu" : "gelu_pytorch_tanh"; }

/// Returns √D rounded to the weights' dtype, as transformers multiplies embeddings.
float embedding_scale(const ModelConfig& config) {
  const auto scale = static_cast<float>(std::sqrt(static_cast<double>(config.hidden_size)));
  return config.dtype == DType::f32 ? scale : base::to_float(base::to_bf16(scale));
}

void refuse_unsupported(const Reader& reader, const FamilySpec& family) {
  QRL_REQUIRE(reader.find("quantization_config") == nullptr, reader.at("quantization_config"), "an unquantized model",
              "a quantized model", "use the bf16 or fp32 model that it was made from");
  for (const std::string_view name : kForeignKeys) {
    if (family.has_key(name)) continue;
    const std::string key(name);
    const Json* value = reader.find(key);
    QRL_REQUIRE(value == nullptr || *value == false, reader.at(key), "false, or no such key", shown(*value),
                "models with this key are not supported");
  }
  reader.require_only(family.gate == base::Gate::silu ? "hidden_act" : "hidden_activation", gate_word(family.gate));
  reader.require_only("mlp_bias", false);
  reader.require_only("attention_dropout", 0);
  reader.require_only("lm_head_bias", false);
  reader.require_only("use_bidirectional_attention", false);
  for (const char* key : {"embd_pdrop", "resid_pdrop"}) reader.require_only(key, 0);
  for (const char* key : {"full_attn_mod", "interpolate_factor"}) reader.require_only(key, 1);
  reader.require_only("rope_interleaved", false);
}

std::int64_t read_head_dim(const Reader& reader, const ModelConfig& config, const FamilySpec& family) {
  const std::int64_t width = config.hidden_size;
  const std::int64_t heads = config.num_attention_heads;
  // transformers' LlamaConfig refuses a hidden_size that is not a multiple of the number of heads, even if head_dim is
  // given.
  const bool from_width = !family.needs_head_dim && reader.find("head_dim") == nullptr;
  QRL_REQUIRE(width % heads == 0 || !(from_width || family.splits_width), reader.at("hidden_size"),
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

void read_attention_bias(const Reader& reader, const FamilySpec& family, ModelConfig& config) {
  config.qkv_bias = family.bias == AttentionBias::always;
  if (family.bias != AttentionBias::by_key) return reader.require_only("attention_bias", config.qkv_bias);
  if (reader.find("attention_bias") == nullptr) return;
  config.qkv_bias = config.o_bias = reader.boolean("attention_bias");
}

/// Sets the flags of a config's family, and reads the family's own numbers.
void read_flags(const Reader& reader, const FamilySpec& family, ModelConfig& config) {
  constexpr double kMaxMultiplier = 1e6;
  config.family = family.family;
  config.qk_norm = family.qk_norm != QkNorm::none;
  config.qk_norm_whole = family.qk_norm == QkNorm::whole;
  config.norms = family.norms;
  config.norm_offset = family.norm_offset;
  config.gate = family.gate;
  config.fused_projections = family.fused_projections;
  read_attention_bias(reader, family, config);
  for (const NumberKey& number : family.numbers) {
    config.*number.member = number.missing;
    if (reader.find(number.key) == nullptr) continue;
    config.*number.member =
        static_cast<float>(positive(reader.get(number.key, "a number"), kMaxMultiplier, reader.at(number.key)));
    QRL_REQUIRE(std::isnormal(config.*number.member), reader.at(number.key), "a number that fp32 can represent",
                shown(reader.get(number.key, "a number")));
  }
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
  const FamilySpec& family = read_family(reader);
  read_flags(reader, family, config);
  config.vocab_size = reader.size("vocab_size", kMaxVocab);
  config.hidden_size = reader.size("hidden_size", kMaxWidth);
  config.num_hidden_layers = reader.size("num_hidden_layers", kMaxLayers);
  config.num_attention_heads = reader.size("num_attention_heads", kMaxHeads);
  config.num_key_value_heads = reader.size("num_key_value_heads", kMaxHeads);
  QRL_REQUIRE(config.num_attention_heads % config.num_key_value_heads == 0, reader.at("num_key_value_heads"),
              "a divisor of num_attention_heads (" + std::to_string(config.num_attention_heads) + ")",
              std::to_string(config.num_key_value_heads));
  config.head_dim = read_head_dim(reader, config, family);
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
  read_rope(reader, family, config);
  const bool is_assumed = spec_of(config.family).ties_if_absent && reader.find("tie_word_embeddings") == nullptr;
  config.tie_word_embeddings = is_assumed || reader.boolean("tie_word_embeddings");
  config.dtype = read_dtype(reader);
  if (family.scales_embedding) {
    QRL_REQUIRE(float16_note(json_text, where).empty(), reader.at("dtype"), "\"bfloat16\" or \"float32\"",
                "\"float16\"",
                "the factor of this family's embeddings depends on the dtype: convert the folder with transformers");
    config.embedding_multiplier = embedding_scale(config);
  }
  if (const Json* eos = reader.find("eos_token_id")) {
    config.eos_token_ids = token_ids(*eos, config.vocab_size, reader.at("eos_token_id"));
  }
  config.bos_token_id = optional_token_id(reader, "bos_token_id", config.vocab_size);
  config.pad_token_id = optional_token_id(reader, "pad_token_id", config.vocab_size);
  if (family.experts) read_experts(reader, config);
  if (family.delta_layers) read_delta(reader, config);
  refuse_unsupported(reader, family);
  if (!family.delta_layers) read_window(reader, family, config);
  return config;
}

std::string missing_on_gpu(const ModelConfig& config) {
  if (!config.delta_layers.empty()) return "layers of gated DeltaNet";
  if (config.attention_gate) return "gates of attention's output";
  return config.has_experts() ? "experts" : "";
}

std::vector<std::string> unknown_config_keys(std::string_view json_text, const std::string& where) {
  const Reader reader(json_text, where);
  const Json* type = reader.find("model_type");
  const FamilySpec* family = type != nullptr && type->is_string() ? find_family(type->get<std::string>()) : nullptr;
  std::vector<std::string> unknown;
  for (const auto& [key, value] : reader.root().items()) {
    if (!value.is_null() && !key.starts_with('_') && !contains(kReadKeys, key) && !contains(kHarmlessKeys, key) &&
        !(family != nullptr && family->has_key(key)))
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
  const FamilySpec& family = spec_of(config.family);
  const Json dtype = config.dtype == DType::f32 ? "float32" : "bfloat16";
  const auto id_or_null = [](std::int64_t id) { return id < 0 ? Json() : Json(id); };
  Json root = {
      {"architectures", Json::array({family.architecture})},
      {"attention_dropout", 0.0},
      {"bos_token_id", id_or_null(config.bos_token_id)},
      {"dtype", dtype},
      {"eos_token_id", nullptr},
      {"head_dim", config.head_dim},
      {"hidden_size", config.hidden_size},
      {"initializer_range", shortest_decimal(config.initializer_range)},
      {"intermediate_size", config.intermediate_size},
      {"max_position_embeddings", config.max_position_embeddings},
      {"model_type", family.model_type},
      {"num_attention_heads", config.num_attention_heads},
      {"num_hidden_layers", config.num_hidden_layers},
      {"num_key_value_heads", config.num_key_value_heads},
      {"pad_token_id", id_or_null(config.pad_token_id)},
      {"rms_norm_eps", shortest_decimal(config.rms_norm_eps)},
      {"tie_word_embeddings", config.tie_word_embeddings},
      {"torch_dtype", dtype},
      {"use_cache", true},
      {"vocab_size", config.vocab_size},
  };
  root[family.gate == base::Gate::silu ? "hidden_act" : "hidden_activation"] = gate_word(family.gate);
  write_rope(config, family, root);
  if (config.eos_token_ids.size() == 1) root["eos_token_id"] = config.eos_token_ids[0];
  else if (!config.eos_token_ids.empty()) root["eos_token_id"] = config.eos_token_ids;
  if (family.bias == AttentionBias::by_key) root["attention_bias"] = config.o_bias;
  for (const std::string_view key : family.false_keys) root[std::string(key)] = false;
  write_window(config, family, root);
  for (const NumberKey& number : family.numbers) {
    const double value = shortest_decimal(config.*number.member);
    root[number.key] =
        number.whole && value == std::floor(value) ? Json(static_cast<std::int64_t>(value)) : Json(value);
  }
  if (config.has_experts()) write_experts(config, root);
  if (family.delta_layers) write_delta(config, root);
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
  std::string line = where + ": " + spec_of(config.family).model_type + ", " + std::to_string(num_parameters(config)) +
                     " parameters: vocabulary " + std::to_string(config.vocab_size) + ", width " +
                     std::to_string(config.hidden_size) + ", " + std::to_string(config.num_hidden_layers) +
                     " layers, " + std::to_string(config.num_attention_heads) + "/" +
                     std::to_string(config.num_key_value_heads) + " heads of " + std::to_string(config.head_dim) +
                     ", ffn " + std::to_string(config.intermediate_size) + describe_experts(config) + ", " +
                     std::to_string(config.max_position_embeddings) + " positions" + describe_rope(config) +
                     describe_window(config) + describe_delta(config) + ", " +
                     (config.qkv_bias ? config.o_bias ? "biases on q, k, v and o, " : "biases on q, k and v, " : "") +
                     (config.tie_word_embeddings ? "tied" : "untied") + " embeddings, ";
  for (const NumberKey& number : spec_of(config.family).numbers)
    line += std::string(number.key) + " " + Json(shortest_decimal(config.*number.member)).dump() + ", ";
  const std::string float16 = float16_note(text, where);
  line += float16.empty() ? std::string(base::name(config.dtype)) : "F16; " + float16;
  const std::vector<std::string> unknown = unknown_config_keys(text, where);
  if (!unknown.empty()) line += "; unknown keys, ignored: " + join(unknown);
  return line;
}

}  // namespace qrl::model
