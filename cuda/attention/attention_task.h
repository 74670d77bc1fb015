// Owns the arguments of attention: a tick's plan, pages, queries and contexts. Pointers are unowned device memory.
#pragma once

#include <cstdint>

#include "cuda/attention/attention_plan.h"
#include "cuda/attention/kv.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Holds an AttentionPlan for the rows of AttentionTask::where, and the number of blocks per launch, which loop over
/// tiles. If small (or large) tiles exist, they need at least one block; this is not checked.
struct AttentionWork {
  const AttentionCounts* counts;
  const AttentionTile* tiles;
  const std::int32_t *rows, *partials_N;
  const std::int32_t* split_rows;
  std::int64_t small_blocks, large_blocks;
  std::int64_t split_blocks;  ///< at least num_split
  bool joins_segments;
};

struct AttentionTask {
  const float* q;
  std::int64_t num_heads;
  RowPlaces where;
  KvPages pages;
  AttentionWork work;
  float* partial_stats;     ///< fp32 [partials, H, 2]: largest score, sum of weights
  float* partial_contexts;  ///< fp32 [partials, H, E]
  // Contexts [*, H·E]: fp32 if context_bf16 is null, otherwise bf16 rows for a GEMM, zero-padded to the stride. Then
  // `context` is scratch.
  float* context;
  std::uint16_t* context_bf16 = nullptr;
  std::int64_t bf16_stride = 0;
};

/// Computes causal attention of each row's q heads over its pages, with softmax scale 1/sqrt(E). Operands are rounded
/// like the CPU's (ops/paged_attention.h), except in e4m3:
/// - bf16: queries and softmax weights are rounded to bf16, weights before they are summed. Products are exact, sums
///   fp32 in the tensor core's order and rounding.
/// - fp8_e4m3: the same in fp16, which holds the values exactly; queries are scaled by a power of two. A weight below
///   2⁻¹⁴ of its chunk's largest loses bits; one below 2⁻²⁵ is 0.
/// - int8: a query becomes 254·high + low, int8 terms with 15 bits of its largest magnitude. Weights times the values'
///   scales become 256·high + low, uint8 terms with 16 bits of the largest of a warp's 64 positions. Sums are exact in
///   int32.
///
/// Scales, scores, softmax and its denominator are fp32. A chunk of kAttentionChunk positions has weights exp(score −
/// its largest score). Its four warps' contexts are added in pairs, their sums of weights in order. The kSegmentChunks
/// chunks of a segment are joined in order in fp32, then the segments.
///
/// Results depend on neither the plan, the page order nor the tick's other rows, except that a NaN in bf16 or e4m3
/// values makes all rows of a tile NaN (0 · NaN).
///
/// int8's scores equal the CPU's bitwise. bf16 results differ only by the order of sums up to 128 positions, the CPU's
/// span. e4m3 results also differ by 3 bits of queries and weights, which the CPU rounds to bf16.
void attention(const AttentionTask& task, const Stream& stream);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
