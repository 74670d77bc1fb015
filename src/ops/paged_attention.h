// SPMD as in ops/linear.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/threads.h"
#include "base/view.h"
#include "quant/kv_format.h"

namespace qrl::ops {

struct HeadShape {
  std::int64_t num_heads = 0;     ///< H
  std::int64_t num_kv_heads = 0;  ///< K
  std::int64_t head_dim = 0;      ///< E
  float score_scale = 0;          ///< factor of the scores; 0: 1/√E
  std::int64_t window = 0;        ///< maximum positions that a row attends to, its own included; 0: no limit
};

/// Describes the norms of q and k heads. With `whole`, a norm is over all heads of a row: gains [H·E] and [K·E].
struct HeadNorms {
  const float *q = nullptr, *k = nullptr;  ///< gains [E]; null: no norm
  float eps = 0;
  bool whole = false;
};

/// Describes one layer's key/value pages, which it does not own. A page holds its kv heads in order. With g =
/// values_per_word, a head has keys [⌈E/g⌉, page_size, g] and values [⌈page_size/g⌉, E, g]. int8: a head's fp32 scales
/// [page_size] follow its quantized values.
struct KvPages {
  quant::KvFormat format = quant::KvFormat::f32;
  std::int64_t num_pages = 0;
  std::int64_t page_size = 0;
  std::byte *keys = nullptr, *values = nullptr;
  /// fp8_e4m3: fp32 [K], set by calibration; null for other formats.
  const float *key_scales = nullptr, *value_scales = nullptr;
};

/// Returns how many last positions, its own included, a row with this window may read: the window and the rest of the
/// span that it begins in.
std::int64_t attention_reach(std::int64_t window);

/// Returns the bytes of a page in `keys`. A page in `values` has the same size.
std::int64_t kv_page_bytes(const HeadShape& shape, quant::KvFormat format, std::int64_t page_size);

void copy_slots(const HeadShape& shape, const KvPages& pages, std::int32_t from, std::int32_t to,
                std::int64_t num_slots);

void read_slot(const HeadShape& shape, const KvPages& pages, std::int32_t page, std::int64_t slot, std::int64_t kv_head,
               float* key, float* value);

/// Row r attends to positions 0 … positions[r] of its sequence, or to the last of them if the shape has a window.
struct AttentionRows {
  const std::int32_t* positions = nullptr;           ///< [*]
  const std::int32_t* const* page_tables = nullptr;  ///< [*]: page ids of the row's sequence, in order
};

/// Applies RMSNorm to q and k heads, then the rotary embedding (rotate-half) at the row's position. It turns the first
/// elements of a head, as many as rope_table has columns; others stay. Works in place on qkv rows, fp32 [*, (H+2K)·E]:
/// q, k, v heads. Then stores k and v in the row's page slot, in the pages' format.
void rope_and_store(base::Team& team, const HeadShape& shape, const HeadNorms& norms, const base::View& rope_table,
                    const AttentionRows& where, base::Range rows, const KvPages& pages, float* qkv);

/// Stores the k and v heads of `rows`, to which norm and rotary embedding are already applied. With `write_back`, also
/// writes the dequantized values to qkv.
void store_kv(base::Team& team, const HeadShape& shape, const AttentionRows& where, base::Range rows,
              const KvPages& pages, bool write_back, float* qkv);

/// Quantizes q heads, after norm and rotary embedding, to e4m3 in place: q becomes the e4m3 value of q / s, where s is
/// its kv head's entry of scales_K (fp32 [K]). The caller multiplies the pages' key_scales by scales_K. Attention over
/// fp8_e4m3 pages then computes FP8 scores: exact products, fp32 sums.
void quantize_queries(base::Team& team, const HeadShape& shape, base::Range rows, const float* scales_K, float* qkv);

/// Computes causal attention of each row's q heads over its sequence's pages, with the shape's score_scale.
///
/// Operands by format of the pages:
/// f32   Queries and softmax weights stay fp32. Products and sums are fp32 (fma).
/// bf16, fp8_e4m3   Queries and weights are rounded to bf16, the weights before they are summed. Products are exact,
///       sums fp32.
/// int8  A query becomes (254·high + low) · unit with int8 terms high and low; unit is its largest magnitude /
///       (127·254). Weights are multiplied by the values' scales and become (256·high + low) · unit with uint8 terms;
///       unit is the largest product / 65535. The sums of high terms and of low terms are exact in int32.
///
/// Positions are processed in spans of 128 from position 0 on, beginning with the window's first span. Scores before
/// the window are −inf. A span's weights are exp(score − the span's maximum). Its sums are in position order (int8:
/// exact). Spans are merged in fp32, rescaled to the larger maximum. Results do not depend on page size, page order or
/// prompt chunking.
///
/// q is the first H·E elements of each row of `qkv`; rows are (H+2K)·E apart. (row, kv head) pairs are split over the
/// team. Writes `context` fp32 [*, H·E], to be quantized after a barrier. Writes log Σ exp of the scores to lse_NH [*,
/// H] unless null.
void paged_attention(base::Team& team, const HeadShape& shape, const AttentionRows& where, base::Range rows,
                     const KvPages& pages, const float* qkv, float* context, float* lse_NH = nullptr);

}  // namespace qrl::ops
