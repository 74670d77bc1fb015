#pragma once

#include <cstdint>

#include "ops/linear.h"

namespace qrl::ops {

/// Writes a packed layer's output rows [first_row, first_row + rows) as quantized values, row-major [rows, in], one
/// byte each, as in other programs' files. Bytes are two's complement (int4 sign-extended), or e4m3's bits. Throws an
/// internal error for formats without scales.
void unpack_quantized(const PackedLinear& packed, std::int64_t first_row, std::int64_t rows, std::uint8_t* quantized);

/// Returns output `row`'s stored scale for the inputs from segment · scale_inputs on.
float weight_scale(const PackedLinear& packed, std::int64_t segment, std::int64_t row);

}  // namespace qrl::ops
