// Owns the shape of a model as Hugging Face's config.json states it. Knows nothing of weights in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/view.h"
#include "model/rope.h"
#include "types/prompt.h"

namespace qrl::model {

/// Above it a file of settings (config.json, adapter_config.json) is refused unread.
inline constexpr std::uint64_t kMaxConfig_bytes = 1'000'000;

enum class Family : std::uint8_t { qwen3, qwen2, llama };

/// Decoder-only transformer, pre-norm, RMSNorm, rotary positions (rotate-half), grouped-query attention, SwiGLU.
/// Letters used in tensor names: V, D, L, H, K, E, F as marked.
struct ModelConfig {
  Family family = Family::qwen3;
  std::int64_t vocab_size = 0;           ///< V
  std::int64_t hidden_size = 0;          ///< D
  std::int64_t num_hidden_layers = 0;    ///< L
  std::int64_t num_attention_heads = 0;  ///< H
  std::int64_t num_key_value_heads = 0;  ///< K, divides H
  std::int64_t head_dim = 0;             ///< E, even; H·E need not be D
  std::int64_t intermediate_size = 0;    ///< F
  std::int64_t max_position_embeddings = 0;
  float rms_norm_eps = 0;
  double rope_theta = 0;
  RopeScaling rope_scaling;
  float initializer_range = 0.02F;  ///< standard deviation of a new model's weights; Hugging Face's default
  bool tie_word_embeddings = false;
  bool qk_norm = false;                       ///< Qwen3: RMSNorm over E on q and k before rope
  bool qkv_bias = false;                      ///< bias on q, k, v: Qwen2, and attention_bias of the other two
  bool o_bias = false;                        ///< bias on o: attention_bias of Qwen3 and Llama
  base::DType dtype = base::DType::f32;       ///< of the weights in the folder: f32 or bf16 (f16 is read, written bf16)
  std::vector<types::TokenId> eos_token_ids;  ///< may be empty
  std::int64_t bos_token_id = -1;             ///< −1: none
  std::int64_t pad_token_id = -1;             ///< −1: none
  std::string generation_config;  ///< the model's generation_config.json where it says more than this; "": none

  std::int64_t q_size() const { return num_attention_heads * head_dim; }
  std::int64_t kv_size() const { return num_key_value_heads * head_dim; }
  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

/// Reads the text of a config.json; `where` names it in errors. What a key means is what transformers' class for that
/// model_type makes of it.
/// - Required: model_type, every size above (head_dim may be left out, or null, for qwen2 and llama: hidden_size /
///   num_attention_heads), rms_norm_eps, tie_word_embeddings, rope_theta (or rope_parameters.rope_theta) and dtype (or
///   torch_dtype).
/// - What else is left out has the one value that transformers gives it in all three families and that we compute:
///   hidden_act "silu", no biases but Qwen2's, no window, no dropout, initializer_range 0.02. Nothing that differs
///   between models is assumed.
/// - Biases of attention: Qwen2 has them on q, k and v; Qwen3 and Llama on q, k, v and o with attention_bias.
/// - Refused by name: another model_type or architecture, any rope_type but default, llama3 and yarn, sliding windows
///   that a layer uses and that are shorter than max_position_embeddings, mlp_bias, another activation, partial rotary,
///   dropout, quantization_config, remote code, and the keys by which relatives of these families change the forward
///   pass (multipliers, soft caps, experts, …).
/// - Ignored: keys that do not touch the forward pass, and keys whose value is null.
/// - Any other key: transformers' class would ignore it, so it is ignored here too, but unknown_config_keys names it,
///   and whoever loads a model for use says so in a warning (read_config does).
ModelConfig parse_config(std::string_view json_text, const std::string& where);
/// Reads a config.json of at most 1 MB; one warning names the keys it does not know, one says what becomes of float16.
ModelConfig read_config(const std::filesystem::path& file);

/// The keys of a config.json that are neither read nor known to be harmless.
std::vector<std::string> unknown_config_keys(std::string_view json_text, const std::string& where);

/// The end tokens of a generation_config.json, checked against the vocabulary; nothing when it names none.
std::optional<std::vector<types::TokenId>> parse_generation_eos(std::string_view json_text, const std::string& where,
                                                                std::int64_t vocab_size);

/// What to say of a generation_config.json that has stop_strings; "" where it has none.
std::string stop_strings_note(std::string_view json_text, const std::string& where);

/// One line for `qrl-train check generation`: the end tokens that it names, held against the vocabulary of the
/// config.json beside it, if there is one.
std::string describe_generation(const std::filesystem::path& file);

/// One paragraph for `qrl-train check config`: family, sizes, number of parameters, dtype, unknown keys.
std::string describe_config(const std::filesystem::path& file);

/// config.json that transformers 4 and 5 both read (rope_theta and rope_parameters, torch_dtype and dtype) and that
/// parse_config reads back as the same ModelConfig.
std::string config_json(const ModelConfig& config);

/// What a tensor is, which decides initialization, optimizer group and whether it may be quantized.
enum class WeightKind : std::uint8_t { embedding, norm, linear, bias, lm_head };

struct WeightSpec {
  std::string name;   ///< Hugging Face's ("model.layers.0.self_attn.q_proj.weight")
  base::Shape shape;  ///< linears: [out, in]
  WeightKind kind = WeightKind::linear;
};

/// Every tensor of the model in one fixed order (embedding, layers 0…L−1, final norm, lm_head unless tied).
std::vector<WeightSpec> weight_specs(const ModelConfig& config);

/// Elements of all of them; a tied lm_head counts once.
std::int64_t num_parameters(const ModelConfig& config);

}  // namespace qrl::model
