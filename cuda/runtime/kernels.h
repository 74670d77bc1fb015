// Contracts of the kernels that engine/ calls. Pointers are device memory, nothing is owned. Unless documented, sums
// are fp32 in a fixed order that depends on the row alone.
#pragma once

#include <cstdint>

#include "cuda/attention/attention_plan.h"
#include "cuda/gemm/gemm_plan.h"
#include "cuda/runtime/layout.h"
#include "cuda/runtime/runtime.h"
#include "quant/format.h"
#include "quant/kv_format.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Activations as a GEMM's input: values [rows, stride], zero beyond the width, and scales [rows, num_scales], rounded
/// by quant/format.h.
struct QuantizedRows {
  quant::Element element = quant::Element::bf16;  ///< bf16, int8 or fp8_e4m3 (one byte)
  void* quantized = nullptr;
  float* scales = nullptr;
  std::int64_t stride = 0;       ///< elements
  std::int64_t width = 0;        ///< elements with values
  std::int64_t scale_group = 0;  ///< elements under one scale: width or 128; unused without scales
  QRL_HD std::int64_t num_scales() const { return ceil_div(width, scale_group); }
};

/// The result of a GEMM: [*, stride], bf16 or fp32.
struct GemmRows {
  const void* values;  ///< null: no result
  std::int64_t stride;
  bool is_f32;
  QRL_HD float at(std::int64_t row, std::int64_t i) const {
    const std::int64_t idx = row * stride + i;
    return is_f32 ? static_cast<const float*>(values)[idx]
                  : float_of_bf16(static_cast<const std::uint16_t*>(values)[idx]);
  }
};

/// Computes x[row] = table[tokens[row]], bf16 to fp32. Token −1 − i refers to sampled[i]. A negative sampled token
/// (none could be sampled) counts as token 0.
struct EmbedTask {
  const std::uint16_t* table_VD;
  const std::int32_t* tokens;
  const std::int32_t* sampled;
  std::int64_t width;
  float* x;
};
void embed(const EmbedTask& task, std::int64_t num_rows, const Stream& stream);

/// Computes x[row] += added[row] + added_bias unless null, then out = quantize(x · gain / sqrt(mean(x²) + eps)). With
/// row_ids, reads those rows, writes out's rows 0, 1, …, and leaves x unchanged.
struct NormTask {
  float* x;  ///< fp32 [*, width]
  GemmRows added;
  const float* added_bias;  ///< [width]; null: none
  const float* gain;
  const std::int32_t* row_ids;  ///< null: all rows
  float eps;
  QuantizedRows out;              ///< out.width elements per row
  std::uint16_t* wide = nullptr;  ///< same as in QuantizeTask
};
void norm_quantize(const NormTask& task, std::int64_t num_rows, const Stream& stream);

/// Computes sums[row] = x[row] + added[row], fp32 [*, width], with norm_quantize's bits.
struct AddTask {
  const float* x;
  GemmRows added;
  std::int64_t width;
  float* sums;
};
void add_rows(const AddTask& task, std::int64_t num_rows, const Stream& stream);

/// Computes out = quantize(x), with x fp32 [*, out.width].
struct QuantizeTask {
  const float* x;
  QuantizedRows out;
  std::uint16_t* wide = nullptr;  ///< receives the values rounded to bf16, rows of out.stride; null: none
};
void quantize_rows(const QuantizeTask& task, std::int64_t num_rows, const Stream& stream);

/// Computes out = quantize(silu(gate) · up). Rows: gate first, up from element out.width on.
struct SwigluTask {
  GemmRows halves;
  QuantizedRows out;
  std::uint16_t* wide = nullptr;  ///< same as in QuantizeTask
};
void swiglu_quantize(const SwigluTask& task, std::int64_t num_rows, const Stream& stream);

/// Converts the host's panels to rows of quantized values (layout.h, device_word). Reads no host row beyond `at.out`.
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
  float *key_slot_scales, *value_slot_scales;            ///< int8 only
  const float *key_head_scales_K, *value_head_scales_K;  ///< fp8_e4m3 only
  /// Returns a position's slot by its sequence's page_ids, divided in 32 bits (64 take twice as long).
  QRL_HD std::int64_t slot_of(const std::int32_t* page_ids, std::int64_t position, std::int64_t kv_head) const {
    const auto from = static_cast<std::uint32_t>(position), page_size = static_cast<std::uint32_t>(at.page_size);
    return at.slot(page_ids[from / page_size], kv_head, from % page_size);
  }
};

struct RowPlaces {
  const std::int32_t* positions;    ///< −1: a padding row without a sequence
  const std::int32_t* first_pages;  ///< index in page_ids
  const std::int32_t* page_ids;
};

/// Adds the bias to rows of q, k and v heads, applies RMSNorm over E to q and k heads if there are gains, and rotates q
/// and k. Writes q (fp32 [*, H·E]) to `q`, k and v to the row's slot; skips padding rows.
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

/// Finds for each kv head, over all slots of bf16 pages, the least number that at most num_above of |keys|, and of
/// |values|, exceed: NaN if one is not finite. Slots without a position must be zero.
struct KvPercentileTask {
  const std::uint8_t *keys, *values;
  KvLayout at;
  std::int64_t num_pages;
  std::uint32_t num_above;
  float *keys_K, *values_K;
};
void kv_percentiles(const KvPercentileTask& task, const Stream& stream);

/// Holds a plan of attention_plan.h for the rows of `where`, and each launch's number of blocks, which loop if there
/// are more tiles. A kind with tiles needs at least one block; this is not checked.
struct AttentionWork {
  const AttentionCounts* counts;
  const AttentionTile* tiles;
  const std::int32_t *rows, *partials_N;
  const std::int32_t* split_rows;
  std::int64_t small_blocks, large_blocks;
  std::int64_t split_blocks;  ///< at least num_split
  bool joins_segments;        ///< of the plan
};

/// Computes causal attention of each row's q heads over its pages, with softmax scale 1/sqrt(E). Operands are those of
/// the CPU (ops/paged_attention.h) except for e4m3:
/// - bf16: queries, and weights before they are summed, are rounded to bf16. Products are exact, sums fp32 in the
///   tensor core's order and rounding.
/// - fp8_e4m3: the same in fp16, which holds the values exactly; queries are scaled by a power of two. A weight below
///   2⁻¹⁴ of its chunk's largest has fewer than 11 bits, and one below 2⁻²⁵ is 0.
/// - int8: a query, scaled by its largest magnitude to 15 bits, is 254·high + low of int8 terms. Weights times the
///   values' scales, scaled by the largest of a warp's 64 positions to 16 bits, are 256·high + low of uint8 terms. Sums
///   are exact in int32.
///
/// Scales, scores, softmax and its denominator are fp32, in chunks of kAttentionChunk. A chunk's weights are exp(score
/// − its largest); the sums of its four warps are added in pairs. Segments of kSegmentChunks chunks are joined in
/// order, then the segments, in fp32.
///
/// No bit depends on the plan, the page order or the tick's other rows, except that a NaN value in bf16 or e4m3 makes
/// all rows of a tile NaN (0 · NaN).
///
/// int8's scores have the CPU's bits. bf16 differs only by the order of sums up to 128 positions, the CPU's span; e4m3
/// by 3 bits of queries and weights, which the CPU rounds to bf16.
struct AttentionTask {
  const float* q;
  std::int64_t num_heads;
  RowPlaces where;
  KvPages pages;
  AttentionWork work;
  float* partial_stats;     ///< fp32 [partials, H, 2]: largest score, sum of weights
  float* partial_contexts;  ///< fp32 [partials, H, E]
  // Contexts [*, H·E]: fp32, or bf16 rows for a GEMM, with zeros up to their stride. With bf16 the fp32 memory is
  // overwritten with undefined values.
  float* context;
  std::uint16_t* context_bf16 = nullptr;
  std::int64_t bf16_stride = 0;
};
void attention(const AttentionTask& task, const Stream& stream);

/// Copies the first slots of pages: three int32 each, from, to, number of slots.
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

/// Computes y[row, 0 … w.at.rows) = x · Wᵀ, scaled, for rows 0 … num_rows − 1: bf16, or fp32 if y_is_f32. Products of
/// dequantized values are exact, sums fp32 (int8: exact int32), scales of 128 inputs applied chunk by chunk in fp32.
/// With adds_to_y (bf16 weights only), the fp32 sum is added to y before rounding.
struct GemmTask {
  QuantizedRows x;
  std::int64_t num_rows;
  DeviceMatrix w;
  void* y;
  std::int64_t y_stride;
  bool y_is_f32;
  bool adds_to_y = false;
};

/// Scratch memory of streamed_gemm: `partials` (gemm_plan.h), and kStreamCounters zeros in `counters`, left as zeros.
struct StreamPlace {
  std::uint32_t* partials;
  std::uint32_t* counters;
};
/// Computes a GEMM of any format on sm_80 or newer, reading the weights once per 64 rows. Each split (gemm_plan.h) sums
/// its even and odd chunks of 128 inputs separately in order, and adds the two; splits are added in order, in fp32
/// (int8: int32). A row's bits depend on neither the plan nor other rows.
void streamed_gemm(const GemmTask& task, const StreamPlan& plan, const StreamPlace& place, const Stream& stream);

struct SampleSettings {
  float inverse_temperature = 1;
  std::int32_t greedy = 0;  ///< 1: the likeliest token, at any temperature
};
inline SampleSettings settings_of(float temperature) {
  return temperature == 0 ? SampleSettings{1.0F, 1} : SampleSettings{1.0F / temperature, 0};
}

/// Summarizes logits of a segment of the vocabulary: for each block of kSampleBlock tokens, the largest and Σ exp(z),
/// with z = (logit − largest) / temperature (RowSummary of ops/sample.h). Also writes Σ exp(z) of each kSamplePart
/// tokens, and optionally Σ exp(z)·z.
inline constexpr std::int64_t kSampleBlock = 256, kSamplePart = 32, kSampleParts = kSampleBlock / kSamplePart;
struct SummarizeTask {
  const float* logits;
  std::int64_t stride, first_token, num_tokens;  ///< first_token: a multiple of kSampleBlock
  const SampleSettings* settings;                ///< [rows]
  std::int64_t num_blocks;                       ///< of the whole vocabulary
  float *block_max, *block_sum;                  ///< [rows, num_blocks]
  float* part_sum;                               ///< [rows, num_blocks, kSampleParts]
  float* block_weighted;                         ///< [rows, num_blocks], Σ exp(z)·z; null: not computed
};
void summarize_logits(const SummarizeTask& task, std::int64_t num_rows, const Stream& stream);

/// Rows with a summarized vocabulary, whose logits kernels read, or recompute from the row and its weights: another
/// order of sums than the GEMM's, except for int8's exact ones.
struct SummarizedRows {
  const float *block_max, *block_sum, *part_sum;
  std::int64_t num_blocks, vocab_size;
  const SampleSettings* settings;  ///< [rows]
  const float* logits;             ///< [rows, stride] of the whole vocabulary; null: recomputed
  std::int64_t stride;
  // For recomputed logits: bf16, or int8 with one scale per row and token.
  QuantizedRows hidden;  ///< one per row
  DeviceMatrix head;     ///< lm_head, one row per token
};

/// Samples one token per row: the block by the blocks' sums (fp64, in order, in 32 groups), then the part by the parts'
/// sums. They are added in fp64 in order; the part's logits give the token.
struct SampleTask {
  SummarizedRows rows;
  const double* uniforms;
  std::int32_t* tokens;
  float* logprobs;
};
void sample_tokens(const SampleTask& task, std::int64_t num_rows, const Stream& stream);

/// Computes each target's log-prob, with the bits of sample_tokens above temperature 0, and the row's entropy, summed
/// over blocks in fp64. Both are NaN if no token can be sampled.
struct ScoreTask {
  SummarizedRows rows;
  const float* block_weighted;
  const std::int32_t* targets;
  float *logprobs, *entropies;
};
void score_tokens(const ScoreTask& task, std::int64_t num_rows, const Stream& stream);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
