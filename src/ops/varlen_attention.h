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

/// The packed sequences and their heads. Rows of `qkv` hold H query heads, K key heads and K value heads of E each, in
/// that order, after rope (the layout of rope_and_store); C = (H + 2K)·E. Query head h reads key head h / (H/K).
struct VarlenAttention {
  const std::int32_t* sequence_starts = nullptr;  ///< S+1 offsets into the rows
  std::int64_t num_sequences = 0;                 ///< S
  std::int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  const float* qkv_NC = nullptr;
};

/// out[n, h] = Σ_t softmax_t(q·k_t / √E) v_t over t ≤ n of n's own sequence; lse[n, h] = log Σ_t exp(q·k_t / √E), which
/// the backward pass reads. All sums in fp32. Sequences never mix, and a row's result depends on its own sequence only.
/// Splits (sequence, key head) over base::num_threads(); the same bits for any number of threads. out: [N, H·E].
void varlen_attention(const VarlenAttention& attention, MixedArray out_NHE, float* lse_NH);

/// d_qkv [N, C] (written, not added to) from d_out [N, H·E]: recomputes the probabilities block by block.
/// FlashAttention (Dao et al. 2022, §3.1) without its online rescaling: scores of a block of queries over all its keys
/// are kept.
void varlen_attention_backward(const VarlenAttention& attention, const float* lse_NH, MixedArray d_out_NHE,
                               float* d_qkv_NC);

}  // namespace qrl::ops
