// Owns the arguments of attention: a tick's plan, pages, queries and contexts. Pointers are unowned device memory.
#pragma once

#include <cstdint>

#include "cuda/attention/attention_plan.h"
#include "cuda/attention/kv.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Holds a plan of attention_plan.h for the rows of `where`, and the number of blocks per launch, which loop over
/// further tiles. A kind with tiles needs at least one block; this is not checked.
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
  // Contexts [*, H·E]: fp32, or bf16 rows for a GEMM, zero-padded to the stride. bf16 leaves undefined values in the
  // fp32 memory.
  float* context;
  std::uint16_t* context_bf16 = nullptr;
  std::int64_t bf16_stride = 0;
};

}  // namespace qrl::cuda::QRL_CUDA_TARGET
