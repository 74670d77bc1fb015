// Contracts of the kernels from one row to another: embedding, norms, SwiGLU, quantization. Pointers are unowned device
// memory. Sums are fp32 in a fixed order that depends on the row alone.
#pragma once

#include <cstdint>

#include "cuda/runtime/operands.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Computes x[row] = table[tokens[row]], bf16 to fp32. Token −1 − i refers to sampled[i]; a negative sampled token
/// (none could be sampled) counts as token 0.
struct EmbedTask {
  const std::uint16_t* table_VD;
  const std::int32_t* tokens;
  const std::int32_t* sampled;
  std::int64_t width;
  float* x;
};
void embed(const EmbedTask& task, std::int64_t num_rows, const Stream& stream);

/// Computes x[row] += added[row] + added_bias (unless null), then out = quantize(x · gain / sqrt(mean(x²) + eps)). With
/// row_ids, reads those rows, writes out's rows 0, 1, …, and leaves x unchanged.
struct NormTask {
  float* x;  ///< fp32 [*, width]
  GemmRows added;
  const float* added_bias;  ///< [width]; null: none
  const float* gain;
  const std::int32_t* row_ids;  ///< null: all rows
  float eps;
  QuantizedRows out;              ///< out.width elements per row
  std::uint16_t* wide = nullptr;  ///< as in QuantizeTask
};
void norm_quantize(const NormTask& task, std::int64_t num_rows, const Stream& stream);

/// Computes sums[row] = x[row] + added[row], fp32 [*, width]; the bits equal norm_quantize's.
struct AddTask {
  const float* x;
  GemmRows added;
  std::int64_t width;
  float* sums;
};
void add_rows(const AddTask& task, std::int64_t num_rows, const Stream& stream);

/// Computes out = quantize(x), with x fp32 [*, out.width].
struct QuantizeTask {
  const float* x;
  QuantizedRows out;
  std::uint16_t* wide = nullptr;  ///< also receives the values in bf16, rows of out.stride; null: none
};
void quantize_rows(const QuantizeTask& task, std::int64_t num_rows, const Stream& stream);

/// Computes out = quantize(silu(gate) · up). A row has gate first, then up from element out.width on.
struct SwigluTask {
  GemmRows halves;
  QuantizedRows out;
  std::uint16_t* wide = nullptr;  ///< as in QuantizeTask
};
void swiglu_quantize(const SwigluTask& task, std::int64_t num_rows, const Stream& stream);

/// Converts the host's panels to rows of quantized values (layout.h, device_word). Reads no host row past `at.out`.
struct RepackTask {
  const std::uint32_t* panels;
  WordOrder order;
  MatrixLayout at;
  std::uint8_t* quantized;
};
void repack(const RepackTask& task, const Stream& stream);

/// Dequantizes a whole `int4` or `fp8_block128` matrix to bf16 [w.at.rows, w.at.width], with zeros beyond its inputs.
void dequantize_matrix(const DeviceMatrix& w, std::uint16_t* to, const Stream& stream);
/// Dequantizes e4m3 rows with one scale per 128 inputs to bf16 [num_rows, x.stride], with zeros beyond the width.
void dequantize_rows(const QuantizedRows& x, std::int64_t num_rows, std::uint16_t* to, const Stream& stream);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
