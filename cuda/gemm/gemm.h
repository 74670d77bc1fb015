// Owns the arguments of every GEMM kernel. Pointers are unowned device memory.
#pragma once

#include <cstdint>

#include "cuda/runtime/operands.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Computes y[row, 0 … w.at.rows) = x · Wᵀ, scaled, for num_rows rows; bf16, or fp32 if y_is_f32. Products of
/// dequantized values are exact, sums fp32 (int8: exact int32). Scales of 128 inputs apply chunk by chunk in fp32. With
/// adds_to_y (bf16 weights only), adds the fp32 sum to y before rounding.
struct GemmTask {
  QuantizedRows x;
  std::int64_t num_rows;
  DeviceMatrix w;
  void* y;
  std::int64_t y_stride;
  bool y_is_f32;
  bool adds_to_y = false;
};

}  // namespace qrl::cuda::QRL_CUDA_TARGET
