#pragma once

#include <cstdint>
#include <string>

#include "model/weights.h"

namespace qrl::model {

/// Divisors of the rotary frequencies by llama3's scaling, [E / 2].
inline constexpr const char* kGgufRopeFactors = "rope_freqs.weight";

/// Returns a tensor's name in GGUF: "blk.3.attn_q.weight" for "model.layers.3.self_attn.q_proj.weight".
std::string gguf_name(const ModelConfig& config, const std::string& weight);

enum class RowOrder : std::uint8_t { hugging_face, llama_cpp };

/// Brings rows of q or k into `order`, from the other one; leaves other tensors and families as they are. llama.cpp
/// interleaves the two halves of each head. `values`: the tensor, or its bias.
void reorder_rows(const ModelConfig& config, const WeightSpec& spec, RowOrder order, float* values);

/// Key of config.json for which GGUF has none.
inline constexpr const char* kScoreScalarKey = "query_pre_attn_scalar";
/// Returns the value that llama.cpp takes instead: D/H in the largest model, of 62 layers, else E.
inline std::int64_t gguf_score_scalar(std::int64_t num_layers, std::int64_t width_per_head, std::int64_t head_dim) {
  constexpr std::int64_t kLargest = 62;
  return num_layers == kLargest ? width_per_head : head_dim;
}

}  // namespace qrl::model
