#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/gate.h"

namespace qrl::model {

struct ModelConfig;

/// Names a row of the table of model families.
enum class Family : std::uint8_t {
  qwen3,
  qwen2,
  llama,
  qwen3_moe,
  mistral,
  granite,
  smollm3,
  olmo2,
  phi3,
  gemma3,
  olmo3,
  qwen3_5
};

/// Says where a layer's norms are: before attention and MLP, on their outputs (post-norm), or at all four places.
enum class NormPlace : std::uint8_t { before, after, both };

/// Says over what q and k are normalized: not at all, each head, or all heads of a row together.
enum class QkNorm : std::uint8_t { none, heads, whole };

/// Says which biases attention has: none, always those of q, k and v, or with attention_bias those of q, k, v and o.
enum class AttentionBias : std::uint8_t { none, always, by_key };

/// Says when a sliding window is in use: if use_sliding_window is true; if sliding_window is set; the latter, where a
/// config without that key has a window of 4096 tokens; or in all layers but each sliding_window_pattern-th.
enum class WindowRule : std::uint8_t { switched, set, assumed, pattern };

/// Names a number of config.json with its member and with transformers' value for a missing key.
struct NumberKey {
  const char* key;
  float ModelConfig::*member;
  float missing;
  const char* gguf;    ///< key in GGUF, after the architecture's name; null: none
  bool whole = false;  ///< whether transformers takes integers only
};

/// Describes a family: its names, its own keys of config.json, and the flags that its models have.
struct FamilySpec {
  Family family;
  const char* model_type;
  const char* architecture;
  AttentionBias bias = AttentionBias::by_key;
  WindowRule window = WindowRule::set;
  bool windows = false;         ///< whether layers may have a sliding window
  bool needs_head_dim = false;  ///< whether head_dim is required; else it may follow from hidden_size
  bool splits_width = false;    ///< whether hidden_size must be a multiple of num_attention_heads
  QkNorm qk_norm = QkNorm::none;
  NormPlace norms = NormPlace::before;
  float norm_offset = 0;  ///< gains are this plus the stored weights
  base::Gate gate = base::Gate::silu;
  bool scales_embedding = false;     ///< whether embeddings are multiplied by √D, rounded to the weights' dtype
  bool fused_projections = false;    ///< whether files hold qkv_proj and gate_up_proj
  bool partial_rotary = false;       ///< whether partial_rotary_factor may be below 1
  bool longrope = false;             ///< whether rope_type longrope is known
  bool layers_without_rope = false;  ///< whether no_rope_layers is read
  bool ties_if_absent = false;       ///< whether a missing tie_word_embeddings is true; else the key is required
  bool experts = false;
  bool delta_layers = false;            ///< whether layers are gated DeltaNet ones, between layers of gated attention
  std::int64_t window_pattern = 0;      ///< WindowRule::pattern: value of a missing sliding_window_pattern
  const char* sliding_theta = nullptr;  ///< key of the base of sliding layers' plain rope; null: rope as elsewhere
  const char* wrapper = nullptr;        ///< model_type of folders whose text_config is this family's
  const char* gguf = nullptr;           ///< architecture's name in GGUF; null: such files are refused
  bool gguf_permutes = false;           ///< whether llama.cpp reorders rows of q and k
  const char* missing_keys = "{}";      ///< transformers' values for missing keys that other families require
  std::span<const NumberKey> numbers = {};
  std::span<const std::string_view> keys = {};        ///< own keys of config.json, besides `numbers`
  std::span<const std::string_view> false_keys = {};  ///< keys that may only be false, and that are written as false

  /// Returns whether the family reads a key that models of other families may not have.
  bool has_key(std::string_view key) const;
};

const FamilySpec& spec_of(Family family);

/// Returns a model_type's row, or null.
const FamilySpec* find_family(std::string_view model_type);
/// Return the first row whose `wrapper`, or whose `gguf`, is this word, or null.
const FamilySpec* find_wrapped_family(std::string_view model_type);
const FamilySpec* find_gguf_family(std::string_view architecture);

/// Returns the model_types of all families, each quoted, with commas and a last "or".
std::string family_words();

/// Returns what a related but unsupported model_type lacks: "attention sinks, …"; empty for other words.
std::string_view missing_part(std::string_view model_type);

}  // namespace qrl::model
