#pragma once

#include <cstddef>
#include <cstdint>

namespace qrl::ops {

/// Positions per span. Scores and weights exist for one span at a time.
inline constexpr std::int64_t kAttentionSpan = 128;

/// Maximum rows per group.
inline constexpr std::int64_t kAttentionRows = 8;

/// Describes one row's attention over its sequence's pages (ops/paged_attention.h).
struct AttentionTask {
  const float* q = nullptr;      ///< [num_heads · num_queries, head_dim]
  std::int64_t num_heads = 0;    ///< number of kv heads
  std::int64_t num_queries = 0;  ///< number of q heads per kv head
  std::int64_t head_dim = 0;
  const std::byte* keys = nullptr;    ///< keys of page 0's first kv head
  const std::byte* values = nullptr;  ///< values of page 0's first kv head
  std::int64_t page_bytes = 0;        ///< stride between pages
  std::int64_t head_bytes = 0;        ///< stride between kv heads in a page
  std::int64_t page_size = 0;
  std::int64_t scales = 0;  ///< int8: byte offset from a head's quantized values to its fp32 scales [page_size]
  const std::int32_t* page_table = nullptr;
  std::int64_t first_position = 0;  ///< the row attends to positions first_position … num_positions − 1
  std::int64_t num_positions = 0;   ///< above first_position
  float softmax_scale = 0;
  const float *key_scales = nullptr, *value_scales = nullptr;  ///< fp8: [num_heads]; null for other formats
  float* context = nullptr;                                    ///< [num_heads · num_queries, head_dim]
  float* lse = nullptr;  ///< [num_heads · num_queries] log Σ exp(score); null: not computed
};

constexpr std::int64_t attention_operand_bytes(std::int64_t count) { return (count + 15) / 16 * 64; }

/// Returns a task's scratch size in floats: four queries' scores and weights over a span, one gathered span, and the
/// queries and partial results of kAttentionRows rows.
constexpr std::int64_t attention_scratch_floats(std::int64_t num_q_heads, std::int64_t head_dim) {
  return kAttentionSpan * (4 + 2 * (head_dim + 4) + 2) + attention_operand_bytes(kAttentionSpan) +
         kAttentionRows * num_q_heads * (attention_operand_bytes(head_dim) / 4 + 16);
}

/// Computes the tasks in order. `scratch` must hold attention_scratch_floats for the largest task.
using AttentionKernel = void (*)(const AttentionTask* tasks, std::int64_t num_tasks, float* scratch);

struct AttentionKernels {
  AttentionKernel f32, bf16, int8, fp8;
};

}  // namespace qrl::ops
