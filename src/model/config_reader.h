#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "model/families.h"
#include "state/json.h"

namespace qrl::model {

/// Limit on widths, which keeps products of sizes below 2^63.
inline constexpr std::int64_t kMaxWidth = std::int64_t{1} << 20;
inline constexpr std::int64_t kMaxPositions = std::int64_t{1} << 30;

/// Reads a JSON object's values. Errors are input errors that name the file and the key.
class ConfigReader {
 public:
  ConfigReader(std::string_view text, std::string where)
      : where_(std::move(where)), root_(state::parse_json(text, where_)) {
    QRL_REQUIRE(root_.is_object(), where_, "a JSON object", state::shown_value(root_));
    take_text_part();
    add_missing_keys();
  }

  const nlohmann::json& root() const { return root_; }
  std::string at(const std::string& key) const { return where_ + ": " + base::quoted(key); }

  const nlohmann::json* find(const std::string& key) const {
    const auto found = root_.find(key);
    return found == root_.end() || found->is_null() ? nullptr : &*found;
  }

  const nlohmann::json& get(const std::string& key, const std::string& expected) const {
    const nlohmann::json* value = find(key);
    QRL_REQUIRE(value != nullptr, at(key), expected, root_.contains(key) ? "null" : "no such key",
                "add it: this key has no default");
    return *value;
  }

  std::int64_t size(const std::string& key, std::int64_t max) const {
    const std::string expected = "an integer from 1 to " + std::to_string(max);
    const nlohmann::json& value = get(key, expected);
    QRL_REQUIRE(value.is_number_unsigned() && value.get<std::uint64_t>() >= 1 &&
                    value.get<std::uint64_t>() <= static_cast<std::uint64_t>(max),
                at(key), expected, state::shown_value(value));
    return value.get<std::int64_t>();
  }

  bool boolean(const std::string& key) const {
    const nlohmann::json& value = get(key, "true or false");
    QRL_REQUIRE(value.is_boolean(), at(key), "true or false", state::shown_value(value));
    return value.get<bool>();
  }

  /// Throws an input error unless the key is absent, null or `only`. Numbers are compared by value.
  void require_only(const std::string& key, const nlohmann::json& only) const {
    const nlohmann::json* value = find(key);
    QRL_REQUIRE(value == nullptr || *value == only, at(key), only.dump() + " (no other value is supported)",
                state::shown_value(*value));
  }

 private:
  /// Reduces the config of a model of text and images to its text model's.
  void take_text_part();
  /// Adds a family's values for missing keys.
  void add_missing_keys();

  std::string where_;
  nlohmann::json root_;
};

inline bool contains(std::span<const std::string_view> keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

/// Throws an input error unless the value is a number above 0 and at most `max`.
inline double positive(const nlohmann::json& value, double max, const std::string& where) {
  QRL_REQUIRE(value.is_number() && value.get<double>() > 0 && value.get<double>() <= max, where,
              "a number above 0 and at most " + nlohmann::json(max).dump(), state::shown_value(value));
  return value.get<double>();
}

/// Returns the shortest decimal of a float: 1e-06, not 9.99999997e-07.
double shortest_decimal(float value);

/// Reads rotary positions into a config whose sizes are set: transformers 4's form (rope_theta, rope_scaling) or 5's
/// (rope_parameters), and the layers without them.
void read_rope(const ConfigReader& reader, const FamilySpec& family, ModelConfig& config);

/// Returns the rotary positions of most layers in a value of rope_parameters. Where a family's sliding layers have
/// their own, rope_parameters may hold one entry per kind of layer.
const nlohmann::json& common_rope(const FamilySpec& family, const nlohmann::json& value);
/// Reads the rope base of sliding layers, in both forms.
void read_sliding_rope(const ConfigReader& reader, const FamilySpec& family, ModelConfig& config);

/// Writes the same keys in both forms.
void write_rope(const ModelConfig& config, const FamilySpec& family, nlohmann::json& root);
/// Adds the rope of sliding layers to what write_rope wrote for most layers.
void write_sliding_rope(const ModelConfig& config, const FamilySpec& family, nlohmann::json& root);

/// Reads which layers have a sliding window, and its length. A window of at least max_position_embeddings is none.
/// Throws an input error for windows of a family whose models are known to ignore them.
void read_window(const ConfigReader& reader, const FamilySpec& family, ModelConfig& config);
void write_window(const ModelConfig& config, const FamilySpec& family, nlohmann::json& root);
/// Returns ", windows of 4096 tokens in all layers", or "".
std::string describe_window(const ModelConfig& config);

/// Returns ", rope theta 10000.0, rope scaling {…}, 96 of 128 elements rotate, no rope in layers [3,7]".
std::string describe_rope(const ModelConfig& config);

/// Reads the keys of gated DeltaNet layers into a config whose other sizes are set, and attention's gate.
void read_delta(const ConfigReader& reader, ModelConfig& config);
/// Writes the same keys. write_rope must have written rope_parameters.
void write_delta(const ModelConfig& config, nlohmann::json& root);
/// Returns ", gated DeltaNet in 18 layers (16/16 heads of 128/128, convolution of 4)", or "".
std::string describe_delta(const ModelConfig& config);

/// Reads the experts' keys into a config whose other sizes are set.
void read_experts(const ConfigReader& reader, ModelConfig& config);

/// Writes the experts' keys, as transformers 4 and 5 and vLLM read them.
void write_experts(const ModelConfig& config, nlohmann::json& root);

/// Returns ", 128 experts of 768, 8 per token, in 48 layers, 3345600000 active parameters", or "" for a dense model.
std::string describe_experts(const ModelConfig& config);

// clang-format off

inline constexpr std::string_view kReadKeys[] = {
    "architectures", "attention_bias", "attention_dropout", "bos_token_id", "dtype", "embd_pdrop", "eos_token_id",
    "full_attn_mod", "head_dim", "hidden_act", "hidden_size", "initializer_range", "intermediate_size",
    "interpolate_factor", "layer_types", "lm_head_bias", "max_position_embeddings", "max_window_layers", "mlp_bias",
    "model_type", "num_attention_heads", "num_hidden_layers", "num_key_value_heads", "pad_token_id",
    "partial_rotary_factor", "quantization_config", "resid_pdrop", "rms_norm_eps", "rope_interleaved",
    "rope_parameters", "rope_scaling", "rope_theta", "sliding_window", "tie_word_embeddings", "torch_dtype",
    "use_bidirectional_attention", "use_sliding_window", "vocab_size"};

/// Keys of transformers without effect on the forward pass. Keys with a leading underscore are also harmless.
inline constexpr std::string_view kHarmlessKeys[] = {
    "add_cross_attention", "attn_implementation", "bad_words_ids", "begin_suppress_tokens",
    "cache_implementation", "chunk_size_feed_forward", "cross_attention_hidden_size", "decoder_start_token_id", "diversity_penalty",
    "do_sample", "early_stopping", "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty",
    "finetuning_task", "forced_bos_token_id", "forced_eos_token_id", "gradient_checkpointing", "id2label",
    "is_decoder", "is_encoder_decoder", "label2id", "length_penalty", "max_length",
    "min_length", "name_or_path", "no_repeat_ngram_size", "num_beam_groups", "num_beams",
    "num_return_sequences", "output_attentions", "output_hidden_states", "output_scores", "prefix",
    "pretraining_tp", "problem_type", "pruned_heads", "remove_invalid_values", "repetition_penalty", "return_dict",
    "return_dict_in_generate", "sep_token_id", "suppress_tokens", "task_specific_params", "temperature",
    "tf_legacy_loss", "tie_encoder_decoder", "tokenizer_class", "top_k", "top_p", "torchscript",
    "transformers_version", "typical_p", "unsloth_fixed", "unsloth_version", "use_bfloat16", "use_cache"};

/// Keys that change the forward pass of related models. A config is refused if such a key is neither null nor false,
/// unless it is its family's own.
inline constexpr std::string_view kForeignKeys[] = {
    "alibi", "attention_chunk_size", "attention_multiplier", "attention_out_bias", "attn_logit_softcapping",
    "auto_map", "clip_qkv", "embedding_multiplier", "final_logit_softcapping", "layer_norm_eps",
    "layernorm_epsilon", "local_rope_theta", "logit_scale", "logits_scaling", "moe_intermediate_size",
    "no_rope_layers", "norm_type", "num_experts", "num_experts_per_tok", "num_local_experts", "parallel_residual",
    "qk_layernorm", "qk_norm", "qkv_bias", "query_pre_attn_scalar", "residual_multiplier", "rope_local_base_freq",
    "rotary_dim", "rotary_pct", "use_qk_norm", "use_qkv_bias"};

// clang-format on

}  // namespace qrl::model
