#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "cuda/runtime/portable.h"
#include "quant/format.h"
#include "quant/kv_format.h"

namespace qrl::cuda {

QRL_HD constexpr std::int64_t ceil_div(std::int64_t count, std::int64_t divisor) {
  return (count + divisor - 1) / divisor;
}
QRL_HD constexpr std::int64_t round_up(std::int64_t count, std::int64_t multiple) {
  return ceil_div(count, multiple) * multiple;
}

/// Multiple to which a matrix's inputs are zero-padded. Rows are then 16-byte aligned in every format, as TMA and
/// cuBLASLt require, and hold whole kernel steps.
inline constexpr std::int64_t kInputChunk = 128;
/// Multiple to which a matrix's outputs, the columns of a GEMM's result, are padded.
inline constexpr std::int64_t kOutputTile = 64;

/// Outputs per panel of the host's weights (ops/linear.h).
inline constexpr std::int64_t kPanelColumns = 64;

struct MatrixLayout {
  std::int64_t out = 0, in = 0;      ///< sizes without padding
  std::int64_t rows = 0, width = 0;  ///< sizes with padding
  std::int64_t row_bytes = 0;        ///< bytes of a row's quantized values
  std::int64_t num_scales = 0;       ///< scales per row; 0: none
  std::int64_t word_inputs = 0;      ///< inputs per 32-bit word
  std::int64_t num_words = 0;        ///< words per row on the host
  bool has_whole_blocks = true;      ///< whether no block of 128 outputs spans two fused tensors
  std::int64_t num_bytes() const { return rows * row_bytes; }
};
inline MatrixLayout matrix_layout(quant::Format format, std::int64_t out, std::int64_t in) {
  const quant::FormatSpec& what = quant::spec(format);
  MatrixLayout at;
  at.out = out;
  at.in = in;
  at.rows = round_up(out, kOutputTile);
  at.width = round_up(in, kInputChunk);
  at.row_bytes = at.width * what.weight_bits / 8;
  at.num_scales = !what.has_weight_scales() ? 0 : what.scale_inputs == 0 ? 1 : ceil_div(in, what.scale_inputs);
  at.word_inputs = 32 / what.weight_bits;
  at.num_words = ceil_div(in, at.word_inputs);
  return at;
}

/// Names the order of quantized values in a word of the host's panels.
enum class WordOrder : std::uint8_t { plain, fp8, int4_for_bf16, int4_for_int8 };
inline WordOrder word_order(quant::Format format) {
  const quant::FormatSpec& what = quant::spec(format);
  if (what.weights == quant::Element::fp8_e4m3) return WordOrder::fp8;
  if (what.weights != quant::Element::int4) return WordOrder::plain;
  return what.activations == quant::Element::int8 ? WordOrder::int4_for_int8 : WordOrder::int4_for_bf16;
}
/// Converts a host word to the device's order, which has the first input in the lowest bits. int4 words do not change:
/// their order lets a mask and a shift extract tensor-core operands.
QRL_HD inline std::uint32_t device_word(WordOrder order, std::uint32_t word) {
  if (order != WordOrder::fp8) return word;
  return (word & 0xff0000ffU) | ((word & 0xff00U) << 8) | ((word >> 8) & 0xff00U);
}
/// Returns the position of input `i`'s lowest bit (i = 0 … 7) in a word of int4 values.
QRL_HD inline int int4_bit(WordOrder order, int i) {
  return order == WordOrder::int4_for_int8 ? i % 4 * 8 + i / 4 * 4 : i % 2 * 16 + i / 2 * 4;
}
QRL_HD inline int int4_at(WordOrder order, std::uint32_t word, int i) {
  return static_cast<int>(((word >> int4_bit(order, i)) & 0xfU) ^ 8U) - 8;
}
/// Returns the index of word `w` of output `row` among the host's words.
QRL_HD inline std::int64_t host_word_at(std::int64_t row, std::int64_t w, std::int64_t num_words) {
  return (row / kPanelColumns * num_words + w) * kPanelColumns + row % kPanelColumns;
}

/// Describes one layer's keys (or values): quantized [pages, kv heads, slots, padded_dim]. padded_dim is head_dim
/// rounded up to a multiple of 16, for 16-byte loads. int8's fp32 scales [pages, kv heads, slots] are separate.
struct KvLayout {
  std::int64_t num_kv_heads = 0, page_size = 0, padded_dim = 0, value_bytes = 0;
  QRL_HD std::int64_t slot(std::int64_t page, std::int64_t kv_head, std::int64_t slot_idx) const {
    return (page * num_kv_heads + kv_head) * page_size + slot_idx;
  }
  QRL_HD std::int64_t slot_bytes() const { return padded_dim * value_bytes; }
  QRL_HD std::int64_t byte_at(std::int64_t slot_idx) const { return slot_idx * slot_bytes(); }
  std::int64_t slots(std::int64_t num_pages) const { return num_pages * num_kv_heads * page_size; }
};
inline KvLayout kv_layout(quant::KvFormat format, std::int64_t num_kv_heads, std::int64_t page_size,
                          std::int64_t head_dim) {
  return {num_kv_heads, page_size, round_up(head_dim, 16), quant::value_bytes(format)};
}

/// Threads of a block that processes one row. Their number determines the order of a norm's sums, so it depends on the
/// width alone.
constexpr int kRowThreads = 256, kWideRowThreads = 1024;
constexpr int row_threads(std::int64_t width) { return width >= 4096 ? kWideRowThreads : kRowThreads; }

/// Returns the padded row count of a decode tick, a multiple of 8 (the N of an mma). Up to 512 rows, only 20 counts
/// occur. Above 64 rows, padding adds at most a quarter.
inline std::int64_t padded_rows(std::int64_t num_rows) {
  const auto power = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(num_rows)));
  return round_up(num_rows, std::max<std::int64_t>(8, power / 8));
}

}  // namespace qrl::cuda
