#pragma once

#include <cstdint>

namespace qrl::ops {

struct MixedArray {
  void* data = nullptr;
  bool is_bf16 = false;
};

/// Type to which operands are rounded; sums are fp32.
enum class MatmulType : std::uint8_t { bf16, f32 };

/// Describes packed sequences. Rows of `qkv`, C = (H + 2K)·E wide, hold H query, K key and K value heads after rope.
/// Query head h reads key head h / (H/K).
///
/// A sequence may continue a prefix: the nearest earlier sequence that is not itself a continuation. Rows of the
/// continuation attend to all prefix rows, then causally to their own sequence. A prefix and its continuations form a
/// family.
struct VarlenAttention {
  const std::int32_t* sequence_starts = nullptr;   ///< S+1 offsets into the rows
  std::int64_t num_sequences = 0;                  ///< S
  const std::uint8_t* continues_prefix = nullptr;  ///< [S]: 1 if the sequence continues a prefix, else 0; null: all 0
  std::int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  const float* qkv_NC = nullptr;
  /// bf16: rounds queries, keys, values and softmax weights (before they are summed), as paged_attention does over bf16
  /// pages. The backward pass also rounds d_out and the scores' gradients.
  MatmulType products = MatmulType::f32;
  float score_scale = 0;    ///< factor of the scores; 0: 1/√E
  std::int64_t window = 0;  ///< maximum rows that a row attends to, itself included; 0: no limit
};

/// Computes out[n, h] = Σ_t softmax_t(score_scale · q·k_t) v_t over the rows that row n attends to, with fp32 sums.
/// Also writes lse[n, h] = log Σ_t exp(score_scale · q·k_t) for the backward pass. out: [N, H·E]. Splits (family, key
/// head) pairs over base::num_threads(). Results do not depend on the number of threads.
void varlen_attention(const VarlenAttention& attention, MixedArray out_NHE, float* lse_NH);

/// Overwrites d_qkv [N, C] with the gradients from d_out [N, H·E]. Method: FlashAttention (Dao et al. 2022, §3.1)
/// without online rescaling. Each block of queries is processed against all its keys at once.
void varlen_attention_backward(const VarlenAttention& attention, const float* lse_NH, MixedArray d_out_NHE,
                               float* d_qkv_NC);

}  // namespace qrl::ops
