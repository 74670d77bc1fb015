// Contract of transposed quantized values: right operands of the backward pass with quantized gradients.
#pragma once

#include "ops/linear.h"

namespace qrl::ops {

/// Makes a zeroed int8 layer [out, in] whose scales are all 1.
PackedLinear make_unscaled(std::int64_t out, std::int64_t in);

/// Writes the quantized values of `weight`, an int8 layer [out, in], transposed to `to`, which is make_unscaled(in,
/// out). Drops the scales. Splits over the team.
void transpose_quantized(base::Team& team, const PackedLinear& weight, PackedLinear& to);

/// Writes the quantized values of all rows of `x` (int8 [rows, width]), transposed to `to`, which is
/// make_unscaled(width, rows). Drops the scales. Splits over the team.
void transpose_quantized(base::Team& team, const Activations& x, PackedLinear& to);

/// Returns the number of inputs of a transposed fp8_block128 layer. Outputs of each tensor (PackedLinear::tensors) are
/// padded to whole blocks of 128, the last tensor excepted, so that no segment spans two blocks.
std::int64_t transposed_inputs(const PackedLinear& weight);

/// Copies a row of weight.out fp32 values to such inputs, with zeros in the padding.
void spread_outputs(const PackedLinear& weight, const float* row, float* inputs);

/// Writes `weight`, an fp8_block128 layer [out, in], transposed to `to`, fp8_block128 [in, transposed_inputs(weight)].
/// Quantized values and scales are unchanged, because blocks are square. Splits over the team.
void transpose_blocks(base::Team& team, const PackedLinear& weight, PackedLinear& to);

/// Quantizes rows [first_row, first_row + num_rows) of a dense fp32 matrix at `x`, [num_rows, to.out], into inputs
/// first_row … of `to`. `to` is fp8_block128 [columns, rows] of the matrix. Each column has one scale per segment of
/// 128 rows, amax/448, and rounds to nearest even, like quant::round_activations. A segment with a NaN or infinity gets
/// the scale NaN. first_row is a multiple of 128; num_rows is 128 or the remainder. Runs on the calling thread; several
/// threads may quantize distinct rows.
void quantize_columns(const float* x, std::int64_t first_row, std::int64_t num_rows, PackedLinear& to);

}  // namespace qrl::ops
