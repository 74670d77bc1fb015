// Contract of attention over paged keys and values: their layout, writing them, reading them. SPMD as ops/linear.h
// says: all members call, no barrier inside, fixed order per row. Knows nothing of who holds a page.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/threads.h"
#include "base/view.h"
#include "quant/kv_format.h"

namespace qrl::ops {

/// Shape of the attention's heads.
struct HeadShape {
  std::int64_t num_heads = 0;     ///< H
  std::int64_t num_kv_heads = 0;  ///< K
  std::int64_t head_dim = 0;      ///< E
};

/// One layer's key/value pages. A page holds its kv heads one after another; in a head, with g = values_per_word:
/// keys [⌈E/g⌉, page_size, g], so that a vector of positions lies together, values [⌈page_size/g⌉, E, g], so that a
/// vector of elements does; int8's fp32 scales [page_size] follow each head's quantized values. Not owned.
struct KvPages {
  quant::KvFormat format = quant::KvFormat::f32;
  std::int64_t num_pages = 0;
  std::int64_t page_size = 0;  ///< tokens per page
  std::byte *keys = nullptr, *values = nullptr;
  /// fp8_e4m3: fp32 [K], set by calibration. Null for the others.
  const float *key_scales = nullptr, *value_scales = nullptr;
};

/// Bytes of one page's keys, or of its values (the larger of the two where they differ).
std::int64_t kv_page_bytes(const HeadShape& shape, quant::KvFormat format, std::int64_t page_size);

/// Copies the first num_slots slots of page `from` to page `to`, by the calling thread alone.
void copy_slots(const HeadShape& shape, const KvPages& pages, std::int32_t from, std::int32_t to,
                std::int64_t num_slots);

/// A key and value of one kv head as the pages hold them, dequantized to fp32 [E] each: for checks and for the learner.
void read_slot(const HeadShape& shape, const KvPages& pages, std::int32_t page, std::int64_t slot, std::int64_t kv_head,
               float* key, float* value);

/// For each row: which sequence's page table it belongs to, its position, so it sees positions 0 … position.
struct AttentionRows {
  const std::int32_t* positions = nullptr;           ///< [*]
  const std::int32_t* const* page_tables = nullptr;  ///< [*]: page ids of the row's sequence, in order
};

/// In place on qkv rows ([*, (H+2K)·E] fp32: q heads, k heads, v heads): optional RMSNorm over E of each q and k head
/// (gains of E, null: none), rotary embedding (rotate-half) at the row's position; then stores k and v of the row in
/// its page slot, in the pages' format.
void rope_and_store(base::Team& team, const HeadShape& shape, const float* q_norm_E, const float* k_norm_E, float eps,
                    const base::View& rope_table, const AttentionRows& where, base::Range rows, const KvPages& pages,
                    float* qkv);

/// Stores k and v of rows that went through the above's norm and rotation already. With `write_back` they then hold, in
/// qkv too, the values that the pages' format keeps of them: what a learner that attends over the same pages goes back
/// through.
void store_kv(base::Team& team, const HeadShape& shape, const AttentionRows& where, base::Range rows,
              const KvPages& pages, bool write_back, float* qkv);

/// Quantizes the q heads of rows that went through the norm and rotation to e4m3, in place: each value becomes the
/// quantized one of q / its kv head's scale (scales_K, fp32 [K]). Attention over fp8_e4m3 pages whose key_scales are
/// multiplied by that scale then has the scores of FP8 attention: exact products of e4m3 values, fp32 sums.
void quantize_queries(base::Team& team, const HeadShape& shape, base::Range rows, const float* scales_K, float* qkv);

/// Causal attention of each row's q heads over its sequence's pages, softmax scale 1/sqrt(E). What meets the pages'
/// quantized values, and how it is summed:
/// f32   queries and softmax weights as they are; products and sums fp32 (fma).
/// bf16, fp8_e4m3  queries and weights rounded to bf16 (the weights before they are summed); exact products, fp32 sums.
/// int8  queries as 254·high + low of int8 terms (15 bits of their largest), weights times the values' scales as
///       256·high + low of uint8 terms (16 bits of their largest); exact int32 sums of each term.
/// Positions are taken in spans of 128, counted from position 0: a span's weights are exp(score − the span's largest),
/// and its sums join those of the spans before in fp32, each times exp(its largest − the larger one). Within a span
/// sums run in order of the position (int8's are exact). So nothing depends on page size, page order or chunking.
/// Neighboring rows that see the same pages (samples of a prompt, positions of a chunk) read those once, in whole
/// spans. q: the first H·E of each row of `qkv` (row stride (H+2K)·E). Scratch is per thread and kept. Splits (row, kv
/// head) over the team, except that quantizing needs whole rows: `context` ([*, H·E] fp32) is written here, and the
/// caller quantizes it after a barrier. lse_NH ([*, H], null: not wanted): log Σ exp of the scores.
void paged_attention(base::Team& team, const HeadShape& shape, const AttentionRows& where, base::Range rows,
                     const KvPages& pages, const float* qkv, float* context, float* lse_NH = nullptr);

}  // namespace qrl::ops
