// Contracts of the kernels between fp32 weights on the device and quantized values, for publishing and the learner's
// backward pass. Pointers are unowned device memory.
#pragma once

#include <cstdint>

#include "cuda/runtime/operands.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Quantizes rows of W, fp32 [num_rows, at.in], into rows first_row … of a device matrix; results equal pack_rows of
/// ops/linear.h. Does not write the padding after at.in and at.num_words.
struct QuantizeWeightsTask {
  const float* weights;
  std::int64_t num_rows;
  const float* input_factors;  ///< [in], multiplied into every weight first; null: none
  const float* row_scales;     ///< [num_rows], int8 only; null: computed
  quant::Element element;
  quant::ScaleScope scope;
  std::int64_t scale_group;  ///< number of inputs that share a scale; at.in: all
  WordOrder order;
  MatrixLayout at;
  std::int64_t first_row;
  std::uint8_t* quantized;
  float* scales;              ///< [num_scales, at.rows]; null: none
  std::uint32_t* magnitudes;  ///< scratch: num_magnitudes() of them
  std::uint32_t* not_finite;  ///< set to 1 if a weight is not finite, whose quantized value is undefined
};
std::int64_t num_magnitudes(quant::ScaleScope scope, std::int64_t num_rows, std::int64_t num_scales);
void quantize_weights(const QuantizeWeightsTask& task, const Stream& stream);

/// Store `count` values: round_table as bf16 (nearest even); store_vector as fp32, divided by `divisors` unless null.
struct StoreTask {
  const float* values;
  std::int64_t count;
  const float* divisors;  ///< store_vector only; null: none
  void* to;               ///< bf16, or fp32
  std::uint32_t* not_finite;
};
void round_table(const StoreTask& task, const Stream& stream);
void store_vector(const StoreTask& task, const Stream& stream);

/// Multiplies fp32 [num_rows, width] by the factor in fp32, and rounds to bf16 (nearest even) into rows of `stride`
/// numbers.
struct PlaceTask {
  const float* values;
  std::int64_t num_rows, width;
  float factor;
  std::uint16_t* to;
  std::int64_t stride;
  std::uint32_t* not_finite;  ///< set to 1 if a value is not finite
};
void place_rows(const PlaceTask& task, const Stream& stream);

/// Dequantizes a matrix: value · scale in fp32 (ops/linear.h's unpack_rows), rounded to bf16 unless to_f32. Dense
/// [w.at.out, w.at.in].
struct DequantizeWeightsTask {
  DeviceMatrix w;
  quant::Element element;
  std::int64_t scale_group;  ///< as in QuantizeWeightsTask
  WordOrder order;
  void* to;
  bool to_f32;
};
void dequantize_weights(const DequantizeWeightsTask& task, const Stream& stream);

/// Dequantizes rows (ops/linear.h's dequantize_row), dense [*, x.width].
struct DequantizeRowsTask {
  QuantizedRows x;
  void* to;
  bool to_f32;
};
void dequantize_rows(const DequantizeRowsTask& task, std::int64_t num_rows, const Stream& stream);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
