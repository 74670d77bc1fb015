// Contract of the matmul y = x · Wᵀ (+ bias) in every format, and of packed weights and quantized inputs.
//
// Ops with a base::Team are SPMD: all members of the team call the op together and share its work. Other ops of this
// header run on the calling thread. Call team.barrier() before an op that reads another op's output. Results depend
// neither on the team's size nor on other rows: on each ISA path, a row's operations have one order.
#pragma once

#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "base/threads.h"
#include "quant/format.h"
#include "quant/rotation.h"

namespace qrl::ops {

/// Output columns per panel on every ISA path. A panel is 32-bit words [⌈in / inputs per word⌉][64], zero-padded. A
/// word holds adjacent inputs of a column, the first in the lowest bits.
///
/// Two formats permute the inputs of a word, so that dequantizing takes a shift and a mask. e4m3: the bytes hold inputs
/// 0, 2, 1, 3. int4 (two's complement, eight per word): with bf16 or e4m3 activations, the low half holds inputs 0, 2,
/// 4, 6, the high half 1, 3, 5, 7. With int8 activations, the bytes hold the pairs (0, 4), (1, 5), (2, 6), (3, 7).
inline constexpr std::int64_t kPanelColumns = 64;

struct PackedLinear {
  quant::Format format = quant::Format::f32;
  std::int64_t out = 0, in = 0;
  quant::Rotation rotation = {};  ///< rotation H of the inputs: panels hold W·H; set before pack_rows
  quant::ScaleRule scale_rule = quant::ScaleRule::largest;  ///< set before pack_rows
  base::Buffer panels;                                      ///< layout: see kPanelColumns
  /// [⌈in / FormatSpec::scale_inputs⌉, out padded to 64], fp32 (int4: bf16). Empty if the format has no weight scales.
  base::Buffer scales;
  /// For int8 activations: 128 · Σ quantized weights, int32 in the shape of `scales`. Corrects u8·s8 sums, whose
  /// activations are offset by 128.
  base::Buffer column_sums;
  base::Buffer bias;  ///< fp32 [out padded to 64]; empty: no bias
  /// Output sizes of the tensors fused into this layer, in order; empty: one tensor. Scale blocks restart with each
  /// tensor.
  std::vector<std::int64_t> tensors;
};

/// Makes a zeroed PackedLinear, in the arena's memory unless `arena` is null. Throws an input error if int8 sums over
/// `in` inputs could exceed int32.
PackedLinear make_packed_linear(quant::Format format, std::int64_t out, std::int64_t in, bool has_bias,
                                base::Arena* arena = nullptr);

struct FixedScales {
  const float* input_factors = nullptr;  ///< [in], multiplied into each row of weights before rotation; null: none
  const float* row_scales = nullptr;     ///< [rows], given weight scales, int8 only; null: computed from the weights
};

/// Rotates and quantizes one tensor W, fp32 row-major [rows, in] on the CPU, into rows first_row … of `packed`. Splits
/// the rows over the team. Calls whose row ranges share a panel need a barrier between them. Without `fixed`, the
/// result equals quant::rotate and quant::round_weights bitwise. Returns false if a weight in this member's share is
/// not finite. Adds to `num_changed`, unless null, how many quantized values of this member's share differ from those
/// that `packed` had.
bool pack_rows(base::Team& team, const float* weight, std::int64_t rows, std::int64_t first_row, PackedLinear& packed,
               const FixedScales& fixed = {}, std::int64_t* num_changed = nullptr);

/// Dequantizes rows of a packed layer to fp32 row-major [rows, in], still rotated.
void unpack_rows(const PackedLinear& packed, std::int64_t first_row, std::int64_t rows, float* weight);
/// Copies rows of a bf16 layer as bits. Throws an internal error for other formats, or an odd `in`.
void unpack_rows(const PackedLinear& packed, std::int64_t first_row, std::int64_t rows, std::uint16_t* bf16_weight);

/// Owns quantized rows, the left operand of `linear`.
struct Activations {
  Activations() = default;
  Activations(quant::Format format_, std::int64_t num_rows, std::int64_t width_, quant::Rotation rotation_ = {});
  Activations(const PackedLinear& layer, std::int64_t num_rows);
  quant::Format format = quant::Format::f32;
  quant::Rotation rotation = {};  ///< rotation of rows before they are quantized
  std::int64_t width = 0;         ///< inputs per row
  std::int64_t stride = 0;        ///< elements between rows: width padded to a multiple of 64
  base::Buffer quantized;  ///< [max_rows, stride] fp32, bf16 or int8 (e4m3 as bf16, which is exact); zero beyond width
  base::Buffer scales;     ///< fp32 [max_rows, num_scales]; int8 and e4m3 only

  std::int64_t num_scales() const { return scales.empty() ? 0 : scales.shape()[1]; }
  std::int64_t max_rows() const { return quantized.shape().rank() == 0 ? 0 : quantized.shape()[0]; }
  void* row(std::int64_t row_idx) const;
};

/// Rotates and quantizes one fp32 row, bitwise like `quantize` and the fused ops.
void quantize_row(const float* x, std::int64_t row_idx, Activations& out);
/// Quantizes x · factors. `out` must be int8 without a rotation.
void quantize_product(const float* x, const float* factors, std::int64_t row_idx, Activations& out);

/// Quantizes `rows` of x, fp32 row-major [*, width], into `out`, split over the team.
void quantize(base::Team& team, const float* x, base::Range rows, Activations& out);

/// Dequantizes a row to fp32 [width], still rotated.
void dequantize_row(const Activations& quantized, std::int64_t row_idx, float* x);

/// Rotates fp32 [num_rows, width] in place, bit-identically to quant::rotate.
void rotate_rows(const quant::Rotation& rotation, std::int64_t num_rows, std::int64_t width, float* x);

/// Computes y[row, :] = x[row, :] · Wᵀ + bias for `rows`. `accumulate` adds the result to y. x and W must have the same
/// rotation. y is fp32, row-major [*, out]; W's panels are split over the team. Sums run in input order:
/// - fp32: fma in fp32 (the portable path also rounds the product).
/// - bf16, and e4m3 or int4 dequantized to bf16: exact products are added in fp32. The odd input of each pair is added
///   first, like vdpbf16ps. amx sums the even and the odd inputs of 16 pairs separately, then adds both sums. avx512
///   and amx flush subnormals to zero in these sums.
/// - int8, and int4 with int8 activations: exact, in int32.
///
/// In formats with one weight scale per group of inputs, each group's sum is scaled and added in fp32 (fma). A token's
/// scale is applied last.
void linear(base::Team& team, const Activations& x, const PackedLinear& weight, base::Range rows, bool accumulate,
            float* y);

/// Returns the output columns that this member writes in `linear`. The member may read them without a barrier.
base::Range linear_share(const base::Team& team, std::int64_t out);

/// Computes `linear` into columns of a wider matrix. `y` points to the first of these columns in row 0; rows are
/// y_stride floats apart.
void linear_into(base::Team& team, const Activations& x, const PackedLinear& weight, base::Range rows, bool accumulate,
                 float* y, std::int64_t y_stride);

/// Describes a second product x[row]·Wᵀ for the same rows. Its weights are bf16 or fp32, without bias. Its column 0 is
/// added to column `first_column` of the first product. The computed columns must be whole panels of both products.
struct AddedProduct {
  const Activations& x;
  const PackedLinear& weight;
  std::int64_t first_column = 0;
};

/// Computes linear_into for `columns` (whole panels). `added` is summed separately, in the order of `linear`. Its fp32
/// sum is added after the bias. With `accumulate`, the total is added to y.
void linear_into_columns(base::Team& team, const Activations& x, const PackedLinear& weight, base::Range rows,
                         base::Range columns, bool accumulate, float* y, std::int64_t y_stride,
                         const AddedProduct* added = nullptr);

/// Computes `linear` for `columns` (whole panels) into a dense y [rows.size(), columns.size()]. A column's result does
/// not depend on other columns.
void linear_columns(base::Team& team, const Activations& x, const PackedLinear& weight, base::Range rows,
                    base::Range columns, float* y);

/// Writes output rows [first_row, first_row + rows) as quantized bytes, row-major [rows, in]: two's complement (int4
/// sign-extended), or e4m3's bits. Throws an internal error for formats without scales.
void unpack_quantized(const PackedLinear& packed, std::int64_t first_row, std::int64_t rows, std::uint8_t* quantized);

/// Returns the stored weight scale of output `row` for the inputs that begin at segment · scale_inputs.
float weight_scale(const PackedLinear& packed, std::int64_t segment, std::int64_t row);

/// Makes a zeroed int8 layer [out, in] whose scales are all 1.
PackedLinear make_unscaled(std::int64_t out, std::int64_t in);

/// Transposes the quantized values of `weight`, int8 [out, in], into `to`, without scales. `to` comes from
/// make_unscaled(in, out). Splits the panels over the team.
void transpose_quantized(base::Team& team, const PackedLinear& weight, PackedLinear& to);

/// Does the same for `x`, int8 [rows, width]. `to` comes from make_unscaled(width, rows).
void transpose_quantized(base::Team& team, const Activations& x, PackedLinear& to);

/// Returns the number of inputs of the layer that transpose_blocks makes from `weight`, fp8_block128. The outputs of
/// each tensor but the last are padded to a multiple of 128.
std::int64_t transposed_inputs(const PackedLinear& weight);

/// Copies `row`, weight.out fp32 values, to the transposed layer's padded inputs. Zeroes the padding.
void spread_outputs(const PackedLinear& weight, const float* row, float* inputs);

/// Transposes `weight`, fp8_block128 [out, in], into `to`, fp8_block128 [in, transposed_inputs(weight)], split over the
/// team. Values and scales do not change.
void transpose_blocks(base::Team& team, const PackedLinear& weight, PackedLinear& to);

/// Quantizes dense fp32 rows x [num_rows, to.out] to fp8_block128 and writes them transposed to `to`. Row i of x
/// becomes input first_row + i. A column's 128 rows share a scale, amax/448 (NaN if a value is not finite). first_row
/// is a multiple of 128. num_rows is 128, or fewer for the last rows. Threads may quantize different rows concurrently.
void quantize_columns(const float* x, std::int64_t first_row, std::int64_t num_rows, PackedLinear& to);

}  // namespace qrl::ops
