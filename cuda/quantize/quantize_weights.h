// Contracts of the kernels between fp32 weights on the device and the decoder's quantized values, for publishing and
// for the learner's backward pass. As in kernels.h every pointer is device memory, nothing is owned.
#pragma once

#include <cstdint>

#include "cuda/runtime/kernels.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Rows of W that lie on the device, fp32 [num_rows, at.in], to quantized values and scales of rows first_row … of a
/// device matrix: quant/format.h's rounding of one tensor, the bits that ops/linear.h's pack_rows gives for the same
/// values. What the matrix has beyond at.in and at.num_words is left as it is.
struct QuantizeWeightsTask {
  const float* weights;
  std::int64_t num_rows;
  const float* input_factors;  ///< [in], met by every weight first; null: all 1
  const float* row_scales;     ///< [num_rows], of int8 in place of the weights' own; null: none
  quant::Element element;
  quant::ScaleScope scope;
  std::int64_t scale_group;  ///< inputs under one scale; at.in: all
  WordOrder order;
  MatrixLayout at;
  std::int64_t first_row;
  std::uint8_t* quantized;
  float* scales;              ///< [num_scales, at.rows]; null: none
  std::uint32_t* magnitudes;  ///< num_magnitudes() of them, overwritten
  std::uint32_t* not_finite;  ///< set to 1 when a weight is not (its quantized value means nothing then)
};
std::int64_t num_magnitudes(quant::ScaleScope scope, std::int64_t num_rows, std::int64_t num_scales);
void quantize_weights(const QuantizeWeightsTask& task, const Stream& stream);

/// `count` values to bf16 (nearest even), or as they are, each divided by its divisor where there are any.
struct StoreTask {
  const float* values;
  std::int64_t count;
  const float* divisors;  ///< of store_vector; null: none
  void* to;               ///< bf16, or fp32
  std::uint32_t* not_finite;
};
void round_table(const StoreTask& task, const Stream& stream);
void store_vector(const StoreTask& task, const Stream& stream);

/// fp32 [num_rows, width], each times the factor in fp32, to bf16 (nearest even) in rows of `stride` numbers.
struct PlaceTask {
  const float* values;
  std::int64_t num_rows, width;
  float factor;
  std::uint16_t* to;
  std::int64_t stride;
  std::uint32_t* not_finite;  ///< set to 1 when a value is not
};
void place_rows(const PlaceTask& task, const Stream& stream);

/// Dequantized weights of a matrix, value · scale in fp32 (ops/linear.h's unpack_rows), rounded to bf16 unless to_f32:
/// dense [w.at.out, w.at.in].
struct DequantizeWeightsTask {
  DeviceMatrix w;
  quant::Element element;
  std::int64_t scale_group;  ///< as above
  WordOrder order;
  void* to;
  bool to_f32;
};
void dequantize_weights(const DequantizeWeightsTask& task, const Stream& stream);

/// Dequantized rows, value · scale in fp32 (ops/linear.h's dequantize_row), rounded to bf16 unless to_f32: dense
/// [*, x.width].
struct DequantizeRowsTask {
  QuantizedRows x;
  void* to;
  bool to_f32;
};
void dequantize_rows(const DequantizeRowsTask& task, std::int64_t num_rows, const Stream& stream);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
