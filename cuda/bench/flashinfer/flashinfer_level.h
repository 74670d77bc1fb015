// Owns what FlashInfer's planner and its kernels say to each other. Knows nothing of FlashInfer's headers.
#pragma once

#include <cstdint>
#include <memory>

#include "cuda/bench/flashinfer/flashinfer.h"
#include "cuda/runtime/check.h"
#include "cuda/runtime/kernels.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Of keys and of queries, the one that is compiled.
inline constexpr std::uint32_t kFlashinferHeadDim = 128;

/// Its blocks, each a tile of queries of a sequence over a segment of positions, and room for what they leave where
/// positions are divided (else null).
struct FlashinferWork {
  std::int32_t *request_indices, *qo_tile_indices, *kv_tile_indices, *o_indptr, *merge_indptr, *kv_chunk_size;
  std::uint16_t* partial_contexts;
  float* partial_log2_sums;
  std::uint32_t num_blocks, num_rows;
  std::int64_t tile_queries;
};

/// Everything on the device.
struct FlashinferLevel {
  const std::uint16_t* q;  ///< bf16 [rows, H, E]
  std::uint32_t num_heads, num_sequences;
  KvPages pages;
  const std::int32_t *first_row_S, *first_page_S, *last_page_positions_S, *page_ids;
  bool is_causal;
  FlashinferWork work;
  std::uint16_t* context;  ///< bf16 [rows, H, E]
  float* log2_sums;        ///< [rows, H], of exp of the scores; null: not wanted
  void* stream;
};
void flashinfer_bf16(const FlashinferLevel& level);
void flashinfer_fp8(const FlashinferLevel& level);

/// flashinfer.h's decode kernel.
std::unique_ptr<Flashinfer> make_flashinfer_decode(const AttentionShape& shape, quant::KvFormat format);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
