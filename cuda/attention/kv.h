#pragma once

#include <cstdint>

#include "cuda/runtime/operands.h"
#include "quant/kv_format.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

struct KvPages {
  quant::KvFormat format;
  KvLayout at;
  std::int64_t head_dim;
  std::uint8_t *keys, *values;
  float *key_slot_scales, *value_slot_scales;            ///< int8 only
  const float *key_head_scales_K, *value_head_scales_K;  ///< fp8_e4m3 only
  /// page_ids: pages of the position's sequence.
  QRL_HD std::int64_t slot_of(const std::int32_t* page_ids, std::int64_t position, std::int64_t kv_head) const {
    const auto from = static_cast<std::uint32_t>(position), page_size = static_cast<std::uint32_t>(at.page_size);
    return at.slot(page_ids[from / page_size], kv_head, from % page_size);
  }
};

struct RowPlaces {
  const std::int32_t* positions;    ///< −1: a padding row without a sequence
  const std::int32_t* first_pages;  ///< index in page_ids of the first page of the row's sequence
  const std::int32_t* page_ids;
};

/// Adds the bias to q, k and v heads. Applies RMSNorm to q and k heads if gains are given, then rotates the first
/// rotary_dim elements of these heads (RoPE). Writes q heads to `q`, fp32 [*, H·E], and k and v to the row's slot.
/// Skips padding rows.
struct RopeTask {
  GemmRows heads;
  std::int64_t num_heads;
  const float* bias;                 ///< null: none
  const float *q_norm_E, *k_norm_E;  ///< null: none; with inverse_rms_N2 of all heads together, [H·E] and [K·E]
  float eps;
  const float* rope_table;  ///< [positions, rotary_dim]: cosines, then sines
  RowPlaces where;
  KvPages pages;
  float* q;
  std::int64_t rotary_dim = -1;           ///< −1: E
  const float* inverse_rms_N2 = nullptr;  ///< from projection_rms; null: norms over E
};
void rope_and_store(const RopeTask& task, std::int64_t num_rows, const Stream& stream);

/// For each kv head of bf16 pages, finds the smallest number that at most num_above of |keys| exceed. Finds the same
/// number for |values|. Writes NaN if a key (or value) is not finite. Unused slots must be zero.
struct KvPercentileTask {
  const std::uint8_t *keys, *values;
  KvLayout at;
  std::int64_t num_pages;
  std::uint32_t num_above;
  float *keys_K, *values_K;
};
void kv_percentiles(const KvPercentileTask& task, const Stream& stream);

/// Copies the first slots of pages. A copy is three int32: source page, target page, number of slots.
struct CopyTask {
  const std::int32_t* copies;
  KvPages pages;
};
void copy_slots(const CopyTask& task, std::int64_t num_copies, const Stream& stream);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
