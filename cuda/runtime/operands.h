// Owns the kernels' common operands: activation rows, GEMM results, matrices. Pointers are unowned device memory.
#pragma once

#include <cstdint>

#include "cuda/runtime/layout.h"
#include "cuda/runtime/runtime.h"
#include "quant/format.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Activations as a GEMM's input: values [rows, stride], zero past the width, and scales [rows, num_scales], rounded as
/// in quant/format.h.
struct QuantizedRows {
  quant::Element element = quant::Element::bf16;  ///< bf16, int8 or fp8_e4m3 (one byte)
  void* quantized = nullptr;
  float* scales = nullptr;
  std::int64_t stride = 0;       ///< elements
  std::int64_t width = 0;        ///< elements with values
  std::int64_t scale_group = 0;  ///< number of elements that share a scale: width or 128
  QRL_HD std::int64_t num_scales() const { return ceil_div(width, scale_group); }
};

/// The result of a GEMM: [*, stride], bf16 or fp32.
struct GemmRows {
  const void* values;  ///< null: no result
  std::int64_t stride;
  bool is_f32;
  QRL_HD float at(std::int64_t row, std::int64_t i) const {
    const std::int64_t idx = row * stride + i;
    return is_f32 ? static_cast<const float*>(values)[idx]
                  : float_of_bf16(static_cast<const std::uint16_t*>(values)[idx]);
  }
};

struct DeviceMatrix {
  quant::Format format = quant::Format::bf16;
  MatrixLayout at;
  const std::uint8_t* quantized = nullptr;
  const float* scales = nullptr;  ///< [num_scales, rows padded]; null: none
};

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
