// Contract of quantized values transposed: the right operands with which a low-bit backward pass multiplies its
// quantized gradients. Knows nothing of learning.
#pragma once

#include "ops/linear.h"

namespace qrl::ops {

/// An empty int8 layer [out, in] whose scales are all 1.
PackedLinear make_unscaled(std::int64_t out, std::int64_t in);

/// Writes the quantized values of `weight`, an int8 layer [out, in] (its scales are left behind), to `to`,
/// make_unscaled(in, out). Splits over the team.
void transpose_quantized(base::Team& team, const PackedLinear& weight, PackedLinear& to);

/// Writes the quantized values of all rows of `x` (int8, [rows, width]; their scales are left behind) to `to`,
/// make_unscaled(width, rows). Splits over the team.
void transpose_quantized(base::Team& team, const Activations& x, PackedLinear& to);

/// Inputs of an fp8_block128 layer [out, in] transposed: its outputs, those of each of its tensors
/// (PackedLinear::tensors) filled up to whole blocks, so that no segment of 128 of them meets two blocks.
std::int64_t transposed_inputs(const PackedLinear& weight);

/// A row of `weight.out` numbers, fp32, as such inputs: what fills up is 0.
void spread_outputs(const PackedLinear& weight, const float* row, float* inputs);

/// Writes `weight`, an fp8_block128 layer [out, in], to `to`, an fp8_block128 layer [in, transposed_inputs(weight)]:
/// the same quantized values under the same scales, since a block is as high as it is wide. Splits over the team.
void transpose_blocks(base::Team& team, const PackedLinear& weight, PackedLinear& to);

/// Quantizes rows [first_row, first_row + num_rows) of a matrix, fp32 [num_rows, to.out] dense at `x`, as inputs
/// first_row … of `to`, fp8_block128 [columns of the matrix, its rows]: each column's numbers of up to 128 rows under a
/// scale of their own, amax/448, nearest even (quant::round_activations of a column; a segment that holds a NaN or
/// infinity gets the scale NaN). first_row is a multiple of 128, num_rows 128 or what is left. By the calling thread
/// alone; distinct rows by several at once.
void quantize_columns(const float* x, std::int64_t first_row, std::int64_t num_rows, PackedLinear& to);

}  // namespace qrl::ops
