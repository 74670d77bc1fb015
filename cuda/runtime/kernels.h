// Contracts of the kernels, which engine/ calls one after another. Arguments are plain structs; every pointer is
// device memory, nothing is owned. Sums are fp32 in a fixed order that depends on the row alone, unless said otherwise.
#pragma once

#include <cstdint>

#include "cuda/attention/attention_plan.h"
#include "cuda/gemm/gemm_plan.h"
#include "cuda/runtime/layout.h"
#include "cuda/runtime/runtime.h"
#include "quant/format.h"
#include "quant/kv_format.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Rows of activations as a GEMM reads them: quantized values [rows, stride], zero beyond the width; scales [rows,
/// num_scales]. The rounding is quant/format.h's.
struct QuantizedRows {
  quant::Element element = quant::Element::bf16;  ///< bf16, int8 or fp8_e4m3 (one byte)
  void* quantized = nullptr;
  float* scales = nullptr;
  std::int64_t stride = 0;       ///< elements
  std::int64_t width = 0;        ///< elements that mean something
  std::int64_t scale_group = 0;  ///< elements under one scale: width or 128; without scales unused
  QRL_HD std::int64_t num_scales() const { return ceil_div(width, scale_group); }
};

/// What a GEMM left: [*, stride], bf16 or fp32.
struct GemmRows {
  const void* values;  ///< null: nothing
  std::int64_t stride;
  bool is_f32;
  QRL_HD float at(std::int64_t row, std::int64_t i) const {
    const std::int64_t idx = row * stride + i;
    return is_f32 ? static_cast<const float*>(values)[idx]
                  : float_of_bf16(static_cast<const std::uint16_t*>(values)[idx]);
  }
};

/// x[row] = table[tokens[row]], bf16 to fp32. A token of −1 − i is sampled[i]; where that is negative (nothing could be
/// sampled) 0 stands in.
struct EmbedTask {
  const std::uint16_t* table_VD;
  const std::int32_t* tokens;
  const std::int32_t* sampled;
  std::int64_t width;
  float* x;
};
void embed(const EmbedTask& task, std::int64_t num_rows, const Stream& stream);

/// x[row] += added[row] + its bias where there is something to add; out = quantize(x · gain / sqrt(mean(x²) + eps)).
/// With row_ids the rows of x and added are those, out's are 0, 1 …, and x stays as it is.
struct NormTask {
  float* x;  ///< fp32 [*, width]
  GemmRows added;
  const float* added_bias;  ///< [width]; null: none
  const float* gain;
  const std::int32_t* row_ids;  ///< null: all
  float eps;
  QuantizedRows out;              ///< out.width elements a row
  std::uint16_t* wide = nullptr;  ///< as QuantizeTask's
};
void norm_quantize(const NormTask& task, std::int64_t num_rows, const Stream& stream);

/// sums[row] = x[row] + added[row], fp32 [*, width]: as norm_quantize adds them.
struct AddTask {
  const float* x;
  GemmRows added;
  std::int64_t width;
  float* sums;
};
void add_rows(const AddTask& task, std::int64_t num_rows, const Stream& stream);

/// out = quantize(x), fp32 [*, out.width].
struct QuantizeTask {
  const float* x;
  QuantizedRows out;
  std::uint16_t* wide = nullptr;  ///< the same values rounded to bf16, in rows of out.stride; null: not wanted
};
void quantize_rows(const QuantizeTask& task, std::int64_t num_rows, const Stream& stream);

/// out = quantize(silu(gate) · up); of a row gate comes first, up from element out.width on.
struct SwigluTask {
  GemmRows halves;
  QuantizedRows out;
  std::uint16_t* wide = nullptr;  ///< as QuantizeTask's
};
void swiglu_quantize(const SwigluTask& task, std::int64_t num_rows, const Stream& stream);

/// The host's panels to rows of quantized values (layout.h, device_word); rows of the host beyond `at.out` are not
/// read.
struct RepackTask {
  const std::uint32_t* panels;
  WordOrder order;
  MatrixLayout at;
  std::uint8_t* quantized;
};
void repack(const RepackTask& task, const Stream& stream);

/// Keys and values of one layer.
struct KvPages {
  quant::KvFormat format;
  KvLayout at;
  std::int64_t head_dim;
  std::uint8_t *keys, *values;
  float *key_slot_scales, *value_slot_scales;            ///< int8
  const float *key_head_scales_K, *value_head_scales_K;  ///< fp8_e4m3
  /// Index of a position's slot; `page_ids` are its sequence's. Divided in 32 bits: 64 take twice as long.
  QRL_HD std::int64_t slot_of(const std::int32_t* page_ids, std::int64_t position, std::int64_t kv_head) const {
    const auto from = static_cast<std::uint32_t>(position), page_size = static_cast<std::uint32_t>(at.page_size);
    return at.slot(page_ids[from / page_size], kv_head, from % page_size);
  }
};

/// Where each row's keys and values lie.
struct RowPlaces {
  const std::int32_t* positions;    ///< −1: nowhere, the row is there to fill a number up
  const std::int32_t* first_pages;  ///< index in page_ids
  const std::int32_t* page_ids;
};

/// Of a row of q heads, k heads and v heads: adds the bias, norms each q and k head (RMSNorm over E) where there are
/// gains, and rotates q and k. q goes to `q` (fp32 [*, H·E]), k and v go to the row's slot. A row that is nowhere is
/// skipped.
struct RopeTask {
  GemmRows heads;
  std::int64_t num_heads;
  const float* bias;                 ///< null: none
  const float *q_norm_E, *k_norm_E;  ///< null: none
  float eps;
  const float* rope_table;  ///< [positions, E]: cosines, then sines
  RowPlaces where;
  KvPages pages;
  float* q;
};
void rope_and_store(const RopeTask& task, std::int64_t num_rows, const Stream& stream);

/// Of each kv head's |keys| and |values| in all slots of pages of bf16: the least that at most num_above of them are
/// larger than; NaN where one is not finite. Slots that hold no position must be zero, so that they are never larger.
struct KvPercentileTask {
  const std::uint8_t *keys, *values;
  KvLayout at;
  std::int64_t num_pages;
  std::uint32_t num_above;
  float *keys_K, *values_K;
};
void kv_percentiles(const KvPercentileTask& task, const Stream& stream);

/// A plan of attention_plan.h, for the rows of `where`, and the launches' blocks: of fewer than there are tiles each
/// takes several in turn, of more some find none. 0 blocks where the plan has some of a kind is an error that nobody
/// sees.
struct AttentionWork {
  const AttentionCounts* counts;
  const AttentionTile* tiles;
  const std::int32_t *rows, *partials_N;
  const std::int32_t* split_rows;
  std::int64_t small_blocks, large_blocks;
  std::int64_t split_blocks;  ///< at least num_split
  bool joins_segments;        ///< the plan's
};

/// Causal attention of each row's q heads over its pages, softmax scale 1/sqrt(E). The numbers that keys and values are
/// multiplied with are the CPU's (ops/paged_attention.h) except for e4m3's:
/// - bf16: queries and weights rounded to bf16 (the weights before they are summed); exact products, fp32 sums (the
///   matrix unit's order, with its rounding).
/// - fp8_e4m3: the same in fp16, which holds the values exactly; queries times a power of two. A weight below 2⁻¹⁴ of
/// its
///   chunk's largest has fewer than 11 bits, one below 2⁻²⁵ is 0.
/// - int8: queries as 254·high + low of int8 terms, 15 bits of their largest; weights times the values' scales as
///   256·high + low of uint8 terms, 16 bits of the largest of the 64 positions of a chunk that a warp takes; exact
///   int32 sums.
///
/// Scales, scores, softmax and its denominator are fp32. Positions are taken in chunks of kAttentionChunk: a chunk's
/// weights are exp(score − its largest), its four warps' sums are added in pairs, and chunks are joined in segments of
/// kSegmentChunks, in order, in fp32. So neither plan, page order nor the
/// other rows of a tick change a bit, except for a value that is NaN in bf16 or e4m3: it makes NaN of all rows of a
/// tile that comes to its position, as 0 · NaN is. int8's scores are the CPU's bits; up to 128 positions, the CPU's
/// span, bf16 pages differ from it by the order of sums alone; e4m3's by 3 bits of queries and weights, which the CPU
/// rounds to bf16.
struct AttentionTask {
  const float* q;
  std::int64_t num_heads;
  RowPlaces where;
  KvPages pages;
  AttentionWork work;
  float* partial_stats;     ///< fp32 [partials, H, 2]: largest score, sum of weights
  float* partial_contexts;  ///< fp32 [partials, H, E]
  // Contexts [*, H·E]: fp32; or bf16 rows as a GEMM reads them, with zeros up to their stride. The fp32 memory is
  // then overwritten with numbers that mean nothing.
  float* context;
  std::uint16_t* context_bf16 = nullptr;
  std::int64_t bf16_stride = 0;
};
void attention(const AttentionTask& task, const Stream& stream);

/// Copies the first slots of pages (three int32 each: from, to, slots).
struct CopyTask {
  const std::int32_t* copies;
  KvPages pages;
};
void copy_slots(const CopyTask& task, std::int64_t num_copies, const Stream& stream);

/// A matrix on the device (layout.h).
struct DeviceMatrix {
  quant::Format format = quant::Format::bf16;
  MatrixLayout at;
  const std::uint8_t* quantized = nullptr;
  const float* scales = nullptr;  ///< [num_scales, rows padded]; null: none
};

/// y[row, 0 … matrix.at.rows) = x · Wᵀ, scaled, for rows 0 … num_rows − 1: bf16, or fp32 when y_is_f32. Products of
/// dequantized values are exact; sums fp32 (int8: int32, exact). Scales of chunks of 128 inputs are applied chunk by
/// chunk in fp32. With adds_to_y, of bf16 weights alone, the fp32 sum is added to what y holds before it is rounded.
struct GemmTask {
  QuantizedRows x;
  std::int64_t num_rows;
  DeviceMatrix w;
  void* y;
  std::int64_t y_stride;
  bool y_is_f32;
  bool adds_to_y = false;
};

/// What streamed_gemm needs besides its operands, on the device: `partials` as large as gemm_plan.h says,
/// `counters` kStreamCounters zeros, which it leaves as zeros.
struct StreamPlace {
  std::uint32_t* partials;
  std::uint32_t* counters;
};
/// Every format, sm_80 on: weights are read once for up to 64 rows, while the ones before are multiplied. Of
/// the inputs' chunks of 128 each split (gemm_plan.h) sums the even and the odd ones apart, in order; the two, then
/// the splits in order, are added in fp32 (int8: int32). So a row's bits depend on neither the plan nor the other rows.
void streamed_gemm(const GemmTask& task, const StreamPlan& plan, const StreamPlace& place, const Stream& stream);

/// How one row is sampled, in device memory.
struct SampleSettings {
  float inverse_temperature = 1;
  std::int32_t greedy = 0;  ///< 1: the likeliest token, whatever the temperature
};
/// Of a temperature; 0 is greedy.
inline SampleSettings settings_of(float temperature) {
  return temperature == 0 ? SampleSettings{1.0F, 1} : SampleSettings{1.0F / temperature, 0};
}

/// Rows' logits, a segment of the vocabulary at a time: largest logit and Σ exp((logit − largest)/temperature) of each
/// block of kSampleBlock, as ops/sample.h's RowSummary, the sum also of each of its parts of kSamplePart tokens; with
/// z = (logit − largest)/temperature also Σ exp(z)·z.
inline constexpr std::int64_t kSampleBlock = 256, kSamplePart = 32, kSampleParts = kSampleBlock / kSamplePart;
struct SummarizeTask {
  const float* logits;
  std::int64_t stride, first_token, num_tokens;  ///< first_token a multiple of kSampleBlock
  const SampleSettings* settings;                ///< [rows]
  std::int64_t num_blocks;                       ///< of the whole vocabulary
  float *block_max, *block_sum;                  ///< [rows, num_blocks]
  float* part_sum;                               ///< [rows, num_blocks, kSampleParts]
  float* block_weighted;                         ///< [rows, num_blocks], Σ exp(z)·z; null: not wanted
};
void summarize_logits(const SummarizeTask& task, std::int64_t num_rows, const Stream& stream);

/// Rows whose whole vocabulary was summarized. A logit of theirs is one of those given, or recomputed from the row and
/// its weights, with sums in another order than the GEMM's, which int8's exact sums do not show.
struct SummarizedRows {
  const float *block_max, *block_sum, *part_sum;
  std::int64_t num_blocks, vocab_size;
  const SampleSettings* settings;  ///< [rows]
  const float* logits;             ///< [rows, stride] of the whole vocabulary; null: recomputed
  std::int64_t stride;
  // To recompute them: bf16, or int8 with a scale each.
  QuantizedRows hidden;  ///< one a row
  DeviceMatrix head;     ///< lm_head, a row a token
};

/// Samples one token a row: the block by the sums (fp64, a 32nd of the blocks at a time, in order), its part by the
/// parts' (fp64, in order), then the token by the part's logits.
struct SampleTask {
  SummarizedRows rows;
  const double* uniforms;
  std::int32_t* tokens;
  float* logprobs;
};
void sample_tokens(const SampleTask& task, std::int64_t num_rows, const Stream& stream);

/// Of each row the log-prob of its target, the bits that sample_tokens gives the same token at a temperature above 0,
/// and the entropy (over blocks in fp64). NaN where nothing could be sampled.
struct ScoreTask {
  SummarizedRows rows;
  const float* block_weighted;
  const std::int32_t* targets;
  float *logprobs, *entropies;
};
void score_tokens(const ScoreTask& task, std::int64_t num_rows, const Stream& stream);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
