// Contracts of the kernels that dequantize operands to bf16 for GEMMs of many rows: value · scale in fp32, rounded to
// nearest even.
#pragma once

#include <cstdint>

#include "cuda/runtime/operands.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Dequantizes a whole `int4` or `fp8_block128` matrix to bf16 [w.at.rows, w.at.width], with zeros beyond its inputs.
void dequantize_matrix(const DeviceMatrix& w, std::uint16_t* to, const Stream& stream);
/// Dequantizes e4m3 rows with one scale per 128 inputs to bf16 [num_rows, x.stride], with zeros beyond the width.
void dequantize_rows(const QuantizedRows& x, std::int64_t num_rows, std::uint16_t* to, const Stream& stream);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
