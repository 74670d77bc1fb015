// Transposes quantized values, the right operands of a backward pass with quantized gradients.
#pragma once

#include "ops/linear.h"

namespace qrl::ops {

/// Makes a zeroed int8 layer [out, in] whose scales are all 1.
PackedLinear make_unscaled(std::int64_t out, std::int64_t in);

/// Writes the transposed quantized values of `weight`, int8 [out, in], to `to` from make_unscaled(in, out), without
/// scales. Split over the team.
void transpose_quantized(base::Team& team, const PackedLinear& weight, PackedLinear& to);

/// Writes the transposed rows of `x`, int8 [rows, width], to `to` from make_unscaled(width, rows).
void transpose_quantized(base::Team& team, const Activations& x, PackedLinear& to);

/// Returns the inputs of a transposed fp8_block128 layer. Outputs of each tensor except the last are padded to a
/// multiple of 128, so that no segment spans two tensors' blocks.
std::int64_t transposed_inputs(const PackedLinear& weight);

/// Copies weight.out fp32 values to the padded inputs of the transposed layer, with zeros in the padding.
void spread_outputs(const PackedLinear& weight, const float* row, float* inputs);

/// Writes `weight`, fp8_block128 [out, in], transposed to `to`, fp8_block128 [in, transposed_inputs(weight)], split
/// over the team. Values and scales do not change, because blocks are square.
void transpose_blocks(base::Team& team, const PackedLinear& weight, PackedLinear& to);

/// Quantizes a dense fp32 matrix's rows at `x`, [num_rows, to.out], into inputs first_row … of `to`, fp8_block128
/// [columns, rows]. Each column has one scale per 128 rows, amax/448 (NaN if a value is not finite). first_row is a
/// multiple of 128, num_rows 128 or the remainder. Runs on the calling thread; threads may quantize distinct rows at
/// once.
void quantize_columns(const float* x, std::int64_t first_row, std::int64_t num_rows, PackedLinear& to);

}  // namespace qrl::ops
