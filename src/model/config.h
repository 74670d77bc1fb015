// Owns the shape of a model as Hugging Face's config.json states it. Knows nothing of weights in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/view.h"
#include "types/prompt.h"

namespace qrl::model {

enum class Family : std::uint8_t { qwen3, qwen2, llama };

/// Decoder-only transformer, pre-norm, RMSNorm, rotary positions (rotate-half), grouped-query attention, SwiGLU.
/// Letters used in tensor names: V, D, L, H, K, E, F as marked.
struct ModelConfig {
  Family family = Family::qwen3;
  std::int64_t vocab_size = 0;               ///< V
  std::int64_t hidden_size = 0;              ///< D
  std::int64_t num_hidden_layers = 0;        ///< L
  std::int64_t num_attention_heads = 0;      ///< H
  std::int64_t num_key_value_heads = 0;      ///< K, divides H
  std::int64_t head_dim = 0;                 ///< E, even; H·E need not be D
  std::int64_t intermediate_size = 0;        ///< F
  std::int64_t max_position_embeddings = 0;
  float rms_norm_eps = 0;
  double rope_theta = 0;
  bool tie_word_embeddings = false;
  bool qk_norm = false;                      ///< Qwen3: RMSNorm over E on q and k before rope
  bool qkv_bias = false;                     ///< Qwen2: bias on q, k, v
  base::DType dtype = base::DType::f32;      ///< of the weights in the folder: f32 or bf16 (f16 is read, written bf16)
  std::vector<types::TokenId> eos_token_ids;  ///< may be empty
  std::int64_t bos_token_id = -1;            ///< −1: none
  std::int64_t pad_token_id = -1;            ///< −1: none

  std::int64_t q_size() const { return num_attention_heads * head_dim; }
  std::int64_t kv_size() const { return num_key_value_heads * head_dim; }
  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

/// Reads the text of a config.json; `where` names it in errors. Refuses by name what is not supported (other
/// model_type, rope scaling, sliding window, attention_bias of Llama, quantization_config, …); assumes nothing that
/// changes the numbers silently: rope_theta (or rope_parameters.rope_theta), dtype (or torch_dtype), eps must be there.
ModelConfig parse_config(std::string_view json_text, const std::string& where);
ModelConfig read_config(const std::filesystem::path& file);

/// config.json that transformers 4 and 5 both read (rope_theta and rope_parameters, torch_dtype and dtype).
std::string config_json(const ModelConfig& config);

/// What a tensor is, which decides initialisation, optimizer group and whether it may be quantised.
enum class WeightKind : std::uint8_t { embedding, norm, linear, bias, lm_head };

struct WeightSpec {
  std::string name;     ///< Hugging Face's ("model.layers.0.self_attn.q_proj.weight")
  base::Shape shape;    ///< linears: [out, in]
  WeightKind kind = WeightKind::linear;
};

/// Every tensor of the model in one fixed order (embedding, layers 0…L−1, final norm, lm_head unless tied).
std::vector<WeightSpec> weight_specs(const ModelConfig& config);

}  // namespace qrl::model
