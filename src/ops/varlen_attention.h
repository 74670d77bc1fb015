// Contract of causal attention over packed sequences, forward and backward: what the learner trains with. Knows nothing
// of pages, models or autograd.
#pragma once

#include <cstdint>

namespace qrl::ops {

/// An array of fp32 or of bf16 bits.
struct MixedArray {
  void* data = nullptr;
  bool is_bf16 = false;
};

/// What the operands of a product are rounded to; all sums are fp32.
enum class MatmulType : std::uint8_t { bf16, f32 };

/// The packed sequences and their heads. Rows of `qkv` hold H query heads, K key heads and K value heads of E each, in
/// that order, after rope (the layout of rope_and_store); C = (H + 2K)·E. Query head h reads key head h / (H/K).
///
/// A sequence may continue a prefix: the nearest sequence before it that continues nothing. Its rows see all the
/// prefix's rows, then their own up to themselves, exactly as if the prefix stood before it: a prompt that several
/// samples share is computed once. A prefix and all that continue it are a family.
struct VarlenAttention {
  const std::int32_t* sequence_starts = nullptr;   ///< S+1 offsets into the rows
  std::int64_t num_sequences = 0;                  ///< S
  const std::uint8_t* continues_prefix = nullptr;  ///< [S] 0 or 1, the first 0; null: all 0
  std::int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  const float* qkv_NC = nullptr;
  /// bf16: queries, keys, values and softmax weights (before they are summed), in the backward pass d_out and the
  /// scores' gradients too, are rounded to bf16 where they meet in a product, as in paged_attention over bf16 pages.
  MatmulType products = MatmulType::f32;
};

/// out[n, h] = Σ_t softmax_t(q·k_t / √E) v_t over what row n sees; lse[n, h] = log Σ_t exp(q·k_t / √E), which the
/// backward pass reads. All sums in fp32. Sequences never mix, and a row's result depends on its own sequence (and that
/// one's prefix) only. Splits (family, key head) over base::num_threads(); the same bits for any number of threads.
/// out: [N, H·E].
void varlen_attention(const VarlenAttention& attention, MixedArray out_NHE, float* lse_NH);

/// d_qkv [N, C] (written, not added to) from d_out [N, H·E]: recomputes the probabilities block by block.
/// FlashAttention (Dao et al. 2022, §3.1) without its online rescaling: scores of a block of queries over all its keys
/// are kept.
void varlen_attention_backward(const VarlenAttention& attention, const float* lse_NH, MixedArray d_out_NHE,
                               float* d_qkv_NC);

}  // namespace qrl::ops
