// What src/ops/paged_attention.cpp calls on each ISA path: one row and kv head at a time. Plain types only (see
// simd.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace qrl::ops {

/// The query heads of one row that share a kv head, against their sequence's pages (layout: ops/paged_attention.h).
struct AttentionTask {
  const float* q = nullptr;      ///< [num_queries, head_dim]
  std::int64_t num_queries = 0;  ///< q heads that share the kv head
  std::int64_t head_dim = 0;
  const std::byte* keys = nullptr;  ///< this kv head's in page 0; values likewise
  const std::byte* values = nullptr;
  std::int64_t page_bytes = 0;  ///< from page to page
  std::int64_t page_size = 0;   ///< slots
  std::int64_t scales = 0;      ///< int8: bytes from a head's codes to its fp32 scales [page_size]; 0 for the others
  const std::int32_t* page_table = nullptr;
  std::int64_t num_positions = 0;  ///< positions 0 … num_positions − 1 are seen; at least one
  float scale = 0;                 ///< of scores: softmax's, times fp8 keys' scale
  float value_scale = 1;           ///< fp8 values' scale
  /// The keys of the task that comes after this one, to be asked for early; next_positions 0: none.
  const std::byte* next_keys = nullptr;
  const std::int32_t* next_page_table = nullptr;
  std::int64_t next_positions = 0;
  float* scratch = nullptr;  ///< attention_scratch_floats
  float* context = nullptr;  ///< [num_queries, head_dim]
  float* lse = nullptr;      ///< [num_queries] log Σ exp(score); null: not wanted
};

/// Bytes of one query, or of one query's softmax weights, prepared for the dot products.
constexpr std::int64_t attention_prepared_bytes(std::int64_t count) { return 4 * ((count + 1 + 15) / 16 * 16) + 64; }

/// Scratch of one task: scores and prepared operands of four queries, and pages of odd sizes put together.
constexpr std::int64_t attention_scratch_floats(std::int64_t num_positions, std::int64_t head_dim) {
  const std::int64_t stride = (num_positions + 15) / 16 * 16;
  const std::int64_t most = stride > head_dim ? stride : head_dim;
  return 4 * stride + attention_prepared_bytes(most) + stride * (2 * (head_dim + 4) + 2) + 16;
}

struct AttentionKernels {
  void (*f32)(const AttentionTask& task);
  void (*bf16)(const AttentionTask& task);
  void (*int8)(const AttentionTask& task);
  void (*fp8)(const AttentionTask& task);
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
