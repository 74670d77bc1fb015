// Contracts of the kernels that write quantized operands as bf16, for GEMMs of so many rows that a bf16 GEMM of
// them is faster than one that dequantizes as it goes. Each number is value · scale in fp32, rounded to nearest even.
#pragma once

#include <cstdint>

#include "cuda/runtime/kernels.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// All of a matrix of `int4` or `fp8_block128`, bf16 [w.at.rows, w.at.width]: zeros behind its inputs.
void dequantize_matrix(const DeviceMatrix& w, std::uint16_t* to, const Stream& stream);
/// Rows of e4m3 with a scale for every 128 inputs, bf16 [num_rows, x.stride]: zeros behind the width.
void dequantize_rows(const QuantizedRows& x, std::int64_t num_rows, std::uint16_t* to, const Stream& stream);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
