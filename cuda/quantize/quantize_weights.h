#pragma once

#include <cstdint>

#include "cuda/runtime/operands.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Quantizes W, fp32 [num_rows, at.in], into the rows of a device matrix from first_row on. Results equal pack_rows of
/// ops/linear.h. A row's words after at.num_words are padding and are not written.
struct QuantizeWeightsTask {
  const float* weights;
  std::int64_t num_rows;
  const float* input_factors;  ///< [in]; each row of W is first multiplied by them; null: none
  const float* row_scales;     ///< [num_rows], int8 only; null: computed
  quant::Element element;
  quant::ScaleScope scope;
  std::int64_t scale_group;  ///< number of inputs that share a scale; if at.in, all inputs of a row share one
  quant::ScaleRule scale_rule;
  WordOrder order;
  MatrixLayout at;
  std::int64_t first_row;
  std::uint8_t* quantized;
  float* scales;              ///< [num_scales, at.rows]; null: none
  std::uint32_t* magnitudes;  ///< scratch [num_magnitudes()]
  std::uint32_t* not_finite;  ///< set to 1 if a weight is not finite; its quantized value is undefined
};
std::int64_t num_magnitudes(quant::ScaleScope scope, std::int64_t num_rows, std::int64_t num_scales);
void quantize_weights(const QuantizeWeightsTask& task, const Stream& stream);

/// Multiplies rows of W, fp32 [num_rows, in], by input_factors (unless null) and rotates them, bitwise like pack_rows.
struct RotateWeightsTask {
  const float* weights;
  std::int64_t num_rows, in;
  const float* input_factors;
  RowRotation rotation;
  float* to;  ///< [num_rows, in]
};
void rotate_weights(const RotateWeightsTask& task, const Stream& stream);

/// Describes `count` values to store. round_table stores bf16 (nearest even); store_vector stores fp32, first adds
/// `offset`, unless it is 0, and divides by `divisors`, unless they are null.
struct StoreTask {
  const float* values;
  std::int64_t count;
  const float* divisors;  ///< store_vector only; null: none
  void* to;
  std::uint32_t* not_finite;
  float offset = 0;  ///< store_vector only
};
void round_table(const StoreTask& task, const Stream& stream);
void store_vector(const StoreTask& task, const Stream& stream);

/// Multiplies `values`, fp32 [num_rows, width], by `factor` in fp32 and stores bf16 (nearest even) in rows of `stride`
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

/// Dequantizes a matrix like ops/linear.h's unpack_rows: value · scale in fp32. Then rotates a rotated matrix back, and
/// rounds to bf16 unless to_f32. `to` is dense [w.at.out, w.at.in].
struct DequantizeWeightsTask {
  DeviceMatrix w;
  quant::Element element;
  std::int64_t scale_group;  ///< as in QuantizeWeightsTask
  WordOrder order;
  void* to;
  bool to_f32;
  RowRotation rotation{};  ///< that of `w`; none: leaves W rotated
};
void dequantize_weights(const DequantizeWeightsTask& task, const Stream& stream);

/// Dequantizes rows like ops/linear.h's dequantize_row, and rotates rotated ones back. `to` is dense [num_rows,
/// x.width], bf16 or fp32.
struct DequantizeRowsTask {
  QuantizedRows x;
  void* to;
  bool to_f32;
};
void dequantize_rows(const DequantizeRowsTask& task, std::int64_t num_rows, const Stream& stream);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
