// Owns the kernels' common operands: activation rows, GEMM results, matrices. Tasks do not own the device memory that
// they point to.
#pragma once

#include <cstdint>

#include "cuda/runtime/layout.h"
#include "cuda/runtime/runtime.h"
#include "quant/format.h"
#include "quant/rotation.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Describes a rotation (quant/rotation.h) to kernels: inputs per block, 0 for none, and 1/√block.
struct RowRotation {
  int block = 0;
  float scale = 1;
};
inline RowRotation row_rotation(const quant::Rotation& rotation) {
  return rotation ? RowRotation{static_cast<int>(rotation.block), quant::scale_of(rotation)} : RowRotation{};
}

/// Describes a GEMM's activations: values [rows, stride], which are zero beyond the width, and scales [rows,
/// num_scales]. quant/format.h defines the rounding.
struct QuantizedRows {
  quant::Element element = quant::Element::bf16;  ///< bf16, int8 or fp8_e4m3 (one byte)
  void* quantized = nullptr;
  float* scales = nullptr;
  std::int64_t stride = 0;       ///< distance between rows, in elements
  std::int64_t width = 0;        ///< elements of a row, without padding
  std::int64_t scale_group = 0;  ///< number of elements that share a scale: width or 128
  RowRotation rotation{};        ///< applied to rows before they are quantized; its blocks divide the width
  QRL_HD std::int64_t num_scales() const { return ceil_div(width, scale_group); }
};

/// Describes the result of a GEMM: [rows, stride], bf16 or fp32.
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
  const float* scales = nullptr;  ///< [at.num_scales, at.rows]; null: none
  /// Scales of fp8_block128 in cuBLASLt's order (gemm/block_scales.h); null: none.
  const float* block_scales = nullptr;
  quant::Rotation rotation = {};  ///< W was rotated, and its input rows have to be
};

/// Computes y[row, 0 … w.at.rows) = x · Wᵀ for num_rows rows. y is bf16, or fp32 if y_is_f32. Products of quantized
/// values are exact. Their sums are fp32 (int8: exact int32) and are then scaled. With scales per 128 inputs, each
/// chunk's sum is scaled and added in fp32. With adds_to_y (bf16 weights only), y's old value is added to the fp32 sum
/// before rounding.
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
