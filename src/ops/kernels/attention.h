// What src/ops/paged_attention.cpp calls on each ISA path: rows one after the other. Plain types only (see simd.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace qrl::ops {

/// Positions whose scores and weights exist at once: counted from position 0, the same for every row.
inline constexpr std::int64_t kAttentionSpan = 128;

/// Rows that may be taken together where they see the same pages: a usual group of samples.
inline constexpr std::int64_t kAttentionRows = 8;

/// Query heads of one row and the kv heads they share, against their sequence's pages (layout: ops/paged_attention.h).
struct AttentionTask {
  const float* q = nullptr;      ///< [num_heads · num_queries, head_dim]
  std::int64_t num_heads = 0;    ///< kv heads
  std::int64_t num_queries = 0;  ///< q heads that share a kv head
  std::int64_t head_dim = 0;
  const std::byte* keys = nullptr;  ///< the first kv head's in page 0; values likewise
  const std::byte* values = nullptr;
  std::int64_t page_bytes = 0;  ///< from page to page
  std::int64_t head_bytes = 0;  ///< from kv head to kv head
  std::int64_t page_size = 0;   ///< slots
  std::int64_t scales = 0;      ///< int8: bytes from a head's quantized values to its fp32 scales [page_size]
  const std::int32_t* page_table = nullptr;
  std::int64_t num_positions = 0;  ///< positions 0 … num_positions − 1 are seen; at least one
  float softmax_scale = 0;
  const float *key_scales = nullptr, *value_scales = nullptr;  ///< fp8: [num_heads]; null for the others
  float* context = nullptr;                                    ///< [num_heads · num_queries, head_dim]
  float* lse = nullptr;  ///< [num_heads · num_queries] log Σ exp(score); null: not wanted
};

/// Bytes of one query, or of one query's softmax weights in a span, prepared for the dot products.
constexpr std::int64_t attention_operand_bytes(std::int64_t count) { return (count + 15) / 16 * 64; }

/// Scratch of tasks: a span's scores and weights of four queries, a span of pages of odd sizes put together, the
/// queries of rows taken together and what they have so far.
constexpr std::int64_t attention_scratch_floats(std::int64_t num_q_heads, std::int64_t head_dim) {
  return kAttentionSpan * (4 + 2 * (head_dim + 4) + 2) + attention_operand_bytes(kAttentionSpan) +
         kAttentionRows * num_q_heads * (attention_operand_bytes(head_dim) / 4 + 16);
}

/// Does the tasks in order; `scratch`: attention_scratch_floats of the largest.
using AttentionKernel = void (*)(const AttentionTask* tasks, std::int64_t num_tasks, float* scratch);

struct AttentionKernels {
  AttentionKernel f32, bf16, int8, fp8;
};

namespace avx512 {
extern const AttentionKernels kAttention;
}
namespace avx2 {
extern const AttentionKernels kAttention;
}
namespace portable {
extern const AttentionKernels kAttention;
}

}  // namespace qrl::ops
