#pragma once

#include <cstdint>

#include "cuda/attention/attention_plan.h"
#include "cuda/attention/kv.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Holds an AttentionPlan for the rows of AttentionTask::where, and the number of blocks of each launch. Blocks loop
/// over tiles. small_blocks (or large_blocks) must not be 0 if small (or large) tiles exist. This is not checked.
struct AttentionWork {
  const AttentionCounts* counts;
  const AttentionTile* tiles;
  const std::int32_t *rows, *partials_N;
  const std::int32_t* split_rows;
  std::int64_t small_blocks, large_blocks;
  std::int64_t split_blocks;  ///< at least counts->num_split
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
  // Results [*, H·E]. If context_bf16 is null, `context` receives them in fp32. Otherwise, context_bf16 receives them
  // in bf16, zero-padded to bf16_stride for a GEMM, and `context` is scratch.
  float* context;
  std::uint16_t* context_bf16 = nullptr;
  std::int64_t bf16_stride = 0;
  float score_scale = 0;    ///< factor of the scores; 0: 1/sqrt(E)
  std::int32_t window = 0;  ///< maximum positions that a row attends to, its own too; 0: no limit
};

/// Returns the first position that a row at `position` attends to. Kernels have one instance for tasks with a window
/// and one for those without: the latter's loops need no registers for it.
template <bool kWindowed>
QRL_HD std::int32_t first_seen(const AttentionTask& task, std::int32_t position) {
  if constexpr (!kWindowed) return 0;
  else return position < task.window ? 0 : position - task.window + 1;
}

/// Computes causal attention of each row's q heads over its pages. Operands are rounded
/// like the CPU's (ops/paged_attention.h), except for e4m3 pages:
/// - bf16: queries and softmax weights are rounded to bf16. Weights are rounded before they are summed. Products are
///   exact. Sums are fp32, in the tensor core's order and rounding.
/// - fp8_e4m3: the same with fp16 instead of bf16. fp16 represents keys and values exactly. Queries are first scaled by
///   a power of two. Weights are at most 1; those below 2⁻¹⁴ lose bits, those below 2⁻²⁵ become 0.
/// - int8: each number of a query becomes (254·high + low) · unit. `high` and `low` are int8, and unit = (largest
///   magnitude of the query) / (127·254). Each weight times its value's scale becomes (256·high + low) · unit. Here
///   `high` and `low` are uint8, and unit = (largest such product in a warp's 64 positions) / 65535. Sums are exact in
///   int32.
///
/// Scales, scores, softmax and its denominator are fp32. Weights are exp(score − the chunk's largest score). In a
/// chunk, the contexts of warps 0 to 3 are added as (0 + 1) + (2 + 3). The warps' sums of weights are added in warp
/// order. Then the chunks of each segment are joined in order, and finally the segments are joined in order. All these
/// sums are fp32.
///
/// Results do not depend on the plan, the page order or the tick's other rows. One exception: a NaN in bf16 or e4m3
/// values makes all rows of a tile NaN, because 0 · NaN is NaN.
///
/// Scores of int8 pages equal the CPU's bitwise. For bf16 pages and at most 128 positions (one span on the CPU),
/// results differ from the CPU's only by the order of sums. For e4m3 pages, the CPU rounds queries and weights to bf16
/// instead of fp16.
void attention(const AttentionTask& task, const Stream& stream);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
