// Contract of the learner's causal attention over packed sequences, forward and backward.
#pragma once

#include <cstdint>

namespace qrl::ops {

struct MixedArray {
  void* data = nullptr;
  bool is_bf16 = false;
};

/// Type to which the operands of a product are rounded. Sums are fp32.
enum class MatmulType : std::uint8_t { bf16, f32 };

/// The packed sequences and their heads. Rows of `qkv`, C = (H + 2K)·E wide, hold H query heads, K key heads and K
/// value heads after rope, as in rope_and_store. Query head h reads key head h / (H/K).
///
/// A sequence may continue a prefix, the nearest earlier sequence that continues nothing: its rows see all rows of the
/// prefix, then their own. A prompt shared by several samples is thus computed once. A prefix and its continuations are
/// a family.
struct VarlenAttention {
  const std::int32_t* sequence_starts = nullptr;   ///< S+1 offsets into the rows
  std::int64_t num_sequences = 0;                  ///< S
  const std::uint8_t* continues_prefix = nullptr;  ///< [S] 0 or 1, the first 0; null: all 0
  std::int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  const float* qkv_NC = nullptr;
  /// bf16: queries, keys, values and softmax weights (before they are summed) are rounded to bf16, as in
  /// paged_attention over bf16 pages. The backward pass also rounds d_out and the scores' gradients.
  MatmulType products = MatmulType::f32;
};

/// Computes out[n, h] = Σ_t softmax_t(q·k_t / √E) v_t over the rows that row n sees, with fp32 sums. Also writes lse[n,
/// h] = log Σ_t exp(q·k_t / √E) for the backward pass. out: [N, H·E]. A row's result depends on its own sequence and
/// prefix only. Splits (family, key head) over base::num_threads(), with equal bits for any number of threads.
void varlen_attention(const VarlenAttention& attention, MixedArray out_NHE, float* lse_NH);

/// Computes d_qkv [N, C] from d_out [N, H·E], overwriting it. Recomputes the probabilities block by block. This is
/// FlashAttention (Dao et al. 2022, §3.1) without online rescaling: the scores of a block of queries over all keys are
/// kept.
void varlen_attention_backward(const VarlenAttention& attention, const float* lse_NH, MixedArray d_out_NHE,
                               float* d_qkv_NC);

}  // namespace qrl::ops
