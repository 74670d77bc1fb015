// Owns reading a packed layer's quantized values and scales apart, as files of other programs store them. Knows no such
// file.
#pragma once

#include <cstdint>

#include "ops/linear.h"

namespace qrl::ops {

/// Writes the quantized values of output rows [first_row, first_row + rows) of a layer that has scales, row-major
/// [rows, in], a byte each: int8 and int4 in two's complement (int4 with its sign extended), e4m3 as its bits.
void unpack_quantized(const PackedLinear& packed, std::int64_t first_row, std::int64_t rows, std::uint8_t* quantized);

/// The scale, as stored, of output `row` and of the inputs from segment · scale_inputs on.
float weight_scale(const PackedLinear& packed, std::int64_t segment, std::int64_t row);

}  // namespace qrl::ops
