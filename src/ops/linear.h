// Contract of the matmul y = x · Wᵀ (+ bias) in every format, its packed weights and its quantized inputs.
// Knows nothing of models. Every op here and in the neighboring headers is called by all members of a team together
// (SPMD): it splits its own work over them and has no barrier inside, so the caller puts team.barrier() between an op
// and the next one that reads its output. Results depend on neither the team's size nor on the other rows of a call:
// each output row has one fixed order of operations on an ISA path.
#pragma once

#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "base/threads.h"
#include "quant/format.h"
#include "quant/rotation.h"

namespace qrl::ops {

/// Output columns per panel, on every ISA path. A panel holds 32-bit words [⌈in / inputs of a word⌉][64], zero beyond
/// the shape: the word of one column and some neighboring inputs, first input lowest, except: e4m3's four bytes hold
/// inputs 0, 2, 1, 3; eight int4 (two's complement) lie as nibbles 0, 2, 4, 6 below and 1, 3, 5, 7 above where they
/// meet bf16 or e4m3, as bytes (0, 4), (1, 5), (2, 6), (3, 7) where they meet int8. So a shift and a mask give what the
/// dot products take.
inline constexpr std::int64_t kPanelColumns = 64;

/// A linear layer's weights as the kernels read them. Owns its memory.
struct PackedLinear {
  quant::Format format = quant::Format::f32;
  std::int64_t out = 0, in = 0;
  quant::Rotation rotation = {};  ///< of its inputs: the panels hold W·H. Set before rows are packed
  base::Buffer panels;            ///< see kPanelColumns
  base::Buffer scales;  ///< [⌈in / scale_inputs⌉, out padded to panels], fp32, int4's bf16; empty without scales
  base::Buffer column_sums;  ///< int32, the scales' shape: 128·Σ quantized values under each scale, what the u8·s8
                             ///< instruction adds too much; with int8 activations only
  base::Buffer bias;         ///< fp32 [out, padded]; empty without one
  /// Outputs of each tensor that it is packed from, in order: blocks of scales begin anew with each. Empty: one tensor.
  std::vector<std::int64_t> tensors;
};

/// Makes an empty (zero) PackedLinear of this shape, in the arena's memory if there is one.
PackedLinear make_packed_linear(quant::Format format, std::int64_t out, std::int64_t in, bool has_bias,
                                base::Arena* arena = nullptr);

/// What quantizes weights instead of figures of their own.
struct FixedScales {
  const float* input_factors = nullptr;  ///< [in], met by every weight first; null: all 1
  const float* row_scales = nullptr;     ///< [rows], of int8 alone; null: from the weights
};

/// Quantizes `rows` output rows of W, fp32 row-major [rows, in] on the CPU, to rows first_row … of `packed`: one
/// tensor, as its scales see it. Splits over the team; distinct row ranges may be packed without a barrier only when
/// they share no panel. Same bits as quant::round_weights of rows that quant::rotate has rotated, unless `fixed` has
/// something to say. Returns false when a weight this member looked at is not finite.
bool pack_rows(base::Team& team, const float* weight, std::int64_t rows, std::int64_t first_row, PackedLinear& packed,
               const FixedScales& fixed = {});

/// Dequantizes rows of a packed layer back to fp32 row-major, rotated as they are stored: what the learner's own
/// products and the tests read.
void unpack_rows(const PackedLinear& packed, std::int64_t first_row, std::int64_t rows, float* weight);
/// The same of a layer in bf16 with an even width, as it is stored.
void unpack_rows(const PackedLinear& packed, std::int64_t first_row, std::int64_t rows, std::uint16_t* bf16_weight);

/// Rows of activations quantized for a format: the left operand of `linear`. Owns its memory; sized once for max_rows.
struct Activations {
  Activations() = default;
  Activations(quant::Format format_, std::int64_t num_rows, std::int64_t width_, quant::Rotation rotation_ = {});
  /// Those that enter `layer`.
  Activations(const PackedLinear& layer, std::int64_t num_rows);
  quant::Format format = quant::Format::f32;
  quant::Rotation rotation = {};  ///< rows are rotated before they are quantized
  std::int64_t width = 0;         ///< in
  std::int64_t stride = 0;        ///< elements from row to row, width padded to 64
  base::Buffer quantized;         ///< [max_rows, stride] of fp32, bf16 or int8, e4m3 as bf16 (exact); zero beyond width
  base::Buffer scales;            ///< fp32 [max_rows, num_scales]; int8 and e4m3 only

  std::int64_t num_scales() const { return scales.empty() ? 0 : scales.shape()[1]; }  ///< of a row
  std::int64_t max_rows() const { return quantized.shape().rank() == 0 ? 0 : quantized.shape()[0]; }
  void* row(std::int64_t row_idx) const;  ///< quantized values of a row
};

/// Rotates one row of fp32 and quantizes it, by the calling thread alone; what `quantize` and the fused ops do per row.
void quantize_row(const float* x, std::int64_t row_idx, Activations& out);
/// Quantizes x · factors, of int8 that is not rotated alone.
void quantize_product(const float* x, const float* factors, std::int64_t row_idx, Activations& out);

/// Quantizes rows [rows.begin, rows.end) of x (fp32, row-major, `width` per row) into `out`; splits rows over the team.
void quantize(base::Team& team, const float* x, base::Range rows, Activations& out);

/// Writes the values of a row of quantized values, rotated as they are, fp32 [width], by the calling thread
/// alone: what a backward pass multiplies with.
void dequantize_row(const Activations& quantized, std::int64_t row_idx, float* x);

/// Rotates rows of fp32 [num_rows, width] in place, or rotates them back, by the calling thread alone: quant::rotate,
/// same bits. Without a rotation they stay as they are.
void rotate_rows(const quant::Rotation& rotation, std::int64_t num_rows, std::int64_t width, float* x);

/// Computes y[row, :] = x[row, :] · Wᵀ + bias for rows in [rows.begin, rows.end), or adds it to y (a residual) when
/// `accumulate`. Both operands are rotated, or neither. y is fp32 row-major, `out` per row. Splits W's panels over the
/// team. Accumulates in order of the input index:
/// - fp32: fma in fp32 (the portable path rounds the product as well).
/// - bf16, and e4m3 and int4 dequantized to it: exact products added in fp32, of each pair of inputs the odd one first,
///   as vdpbf16ps does. amx sums the even inputs of 16 pairs and their odd inputs apart, then adds both. avx512 and amx
///   read and write subnormals as zero in these sums.
/// - int8, and int4 with int8 activations: exact, in int32.
///
/// Weights with a scale per group of inputs: each group's sum is scaled and added in fp32 (fma) to those of the groups
/// before. Scales of a whole token are applied last.
void linear(base::Team& team, const Activations& x, const PackedLinear& weight, base::Range rows, bool accumulate,
            float* y);

/// The columns of `out` that this member writes in linear, for what follows without a barrier.
base::Range linear_share(const base::Team& team, std::int64_t out);

/// The same into some columns of a wider y: `y` is row 0's first of them, from row to row are y_stride floats.
void linear_into(base::Team& team, const Activations& x, const PackedLinear& weight, base::Range rows, bool accumulate,
                 float* y, std::int64_t y_stride);

/// A second product that linear_into_columns adds: x[row]·Wᵀ of the same rows, bf16 or fp32 without bias.
/// `first_column`, of the first product, is its column 0; both have whole panels of the range.
struct AddedProduct {
  const Activations& x;
  const PackedLinear& weight;
  std::int64_t first_column = 0;
};

/// linear_into for a range of columns that begins at a multiple of kPanelColumns; y's other columns stay. The fp32 sum
/// of `added`, in its own order as linear has it, is added to that of the first product and its bias, and only then
/// both to y when `accumulate`.
void linear_into_columns(base::Team& team, const Activations& x, const PackedLinear& weight, base::Range rows,
                         base::Range columns, bool accumulate, float* y, std::int64_t y_stride,
                         const AddedProduct* added = nullptr);

/// linear for such a range into a y of its own: it is [*, columns.size()], its first row
/// rows.begin's. No column's bits depend on the others.
void linear_columns(base::Team& team, const Activations& x, const PackedLinear& weight, base::Range rows,
                    base::Range columns, float* y);

}  // namespace qrl::ops
