// Owns the launch of FlashInfer's kernel over one level of a plan: all positions, or those that sequences share, or
// those that they do not. Included by one source a KV format, as its instantiations take long to compile.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <cmath>
#include <flashinfer/attention/default_prefill_params.cuh>
#include <flashinfer/attention/prefill.cuh>

#include "cuda/bench/flashinfer/flashinfer_level.h"
#include "cuda/bench/flashinfer/flashinfer_variants.cuh"

namespace qrl::cuda::QRL_CUDA_TARGET {

template <class KvElement>
struct LevelParams : flashinfer::BatchPrefillPagedParams<nv_bfloat16, KvElement, nv_bfloat16, std::int32_t> {
  const float *key_head_scales_K = nullptr, *value_head_scales_K = nullptr;
};

template <class KvElement, class Variant>
void run_flashinfer_level(const FlashinferLevel& level) {
  constexpr std::uint32_t kHeadDim = kFlashinferHeadDim;
  using flashinfer::MaskMode, flashinfer::PosEncodingMode;
  const KvPages& pages = level.pages;
  const auto page_size = static_cast<std::uint32_t>(pages.at.page_size);
  const auto num_kv_heads = static_cast<std::uint32_t>(pages.at.num_kv_heads);
  LevelParams<KvElement> params;
  // Its arguments are not const; it writes none of these.
  params.q = reinterpret_cast<nv_bfloat16*>(const_cast<std::uint16_t*>(level.q));
  params.paged_kv = flashinfer::paged_kv_t<KvElement, std::int32_t>(
      num_kv_heads, page_size, kHeadDim, level.num_sequences, flashinfer::QKVLayout::kHND,
      reinterpret_cast<KvElement*>(pages.keys), reinterpret_cast<KvElement*>(pages.values),
      const_cast<std::int32_t*>(level.page_ids), const_cast<std::int32_t*>(level.first_page_S),
      const_cast<std::int32_t*>(level.last_page_positions_S));
  params.q_indptr = const_cast<std::int32_t*>(level.first_row_S);
  params.o = reinterpret_cast<nv_bfloat16*>(level.context);
  params.lse = level.log2_sums;
  params.num_qo_heads = level.num_heads;
  params.group_size = flashinfer::uint_fastdiv(level.num_heads / num_kv_heads);
  params.q_stride_n = static_cast<std::int32_t>(level.num_heads * kHeadDim);
  params.q_stride_h = kHeadDim;
  params.window_left = -1;
  params.sm_scale = 1.0F / std::sqrt(static_cast<float>(kHeadDim));
  params.request_indices = level.work.request_indices;
  params.qo_tile_indices = level.work.qo_tile_indices;
  params.kv_tile_indices = level.work.kv_tile_indices;
  params.merge_indptr = level.work.merge_indptr;
  params.o_indptr = level.work.o_indptr;
  params.kv_chunk_size_ptr = level.work.kv_chunk_size;
  params.padded_batch_size = level.work.num_blocks;
  params.max_total_num_rows = level.work.num_rows;
  params.key_head_scales_K = pages.key_head_scales_K;
  params.value_head_scales_K = pages.value_head_scales_K;
  auto* const partial_contexts = reinterpret_cast<nv_bfloat16*>(level.work.partial_contexts);
  const auto stream = static_cast<cudaStream_t>(level.stream);
  const auto launch = [&]<MaskMode mask>() {
    cudaError_t result = cudaSuccess;
    DISPATCH_CTA_TILE_Q(level.work.tile_queries, kTileQueries, {
      result = flashinfer::BatchPrefillWithPagedKVCacheDispatched<kTileQueries, kHeadDim, kHeadDim,
                                                                  PosEncodingMode::kNone, false, mask, Variant>(
          params, partial_contexts, level.work.partial_log2_sums, true, stream);
    });
    return result;
  };
  QRL_CUDA_CHECK(level.is_causal ? launch.template operator()<MaskMode::kCausal>()
                                 : launch.template operator()<MaskMode::kNone>());
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
