// Owns the contracts of kernels over rows: embedding, norms, SwiGLU, quantization. Sums are fp32 in a fixed order that
// does not depend on other rows. Rows with a rotation are rotated, then quantized.
#pragma once

#include <cstdint>

#include "base/gate.h"
#include "cuda/runtime/operands.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Computes x[row] = table[tokens[row]], bf16 to fp32. A token −1 − i means sampled[i]. A negative sampled[i] (no token
/// could be sampled) counts as token 0. Numbers are multiplied by `factor`.
struct EmbedTask {
  const std::uint16_t* table_VD;
  const std::int32_t* tokens;
  const std::int32_t* sampled;
  std::int64_t width;
  float* x;
  float factor = 1;
};
void embed(const EmbedTask& task, std::int64_t num_rows, const Stream& stream);

/// Computes x[row] += added[row] + added_bias (unless null), then out = quantize(x · gain / sqrt(mean(x²) + eps)), or
/// without a gain out = quantize(x). With row_ids, row i of `out` comes from row row_ids[i], and x does not change.
struct NormTask {
  float* x;  ///< fp32 [rows, out.width]
  GemmRows added;
  const float* added_bias;      ///< [width]; null: none
  const float* gain;            ///< null: no norm
  const std::int32_t* row_ids;  ///< null: all rows
  float eps;
  QuantizedRows out;
  std::uint16_t* wide = nullptr;  ///< as in QuantizeTask
};
void norm_quantize(const NormTask& task, std::int64_t num_rows, const Stream& stream);

/// Computes sums[row] = x[row] + added[row], fp32 [num_rows, width], bitwise like norm_quantize.
struct AddTask {
  const float* x;
  GemmRows added;
  std::int64_t width;
  float* sums;
};
void add_rows(const AddTask& task, std::int64_t num_rows, const Stream& stream);

/// Computes what attention or MLP adds to the residual stream, fp32 [num_rows, width]: factor · (y + bias), or with a
/// gain factor · (y + bias) · gain / sqrt(mean((y + bias)²) + eps).
struct BranchTask {
  GemmRows y;
  const float* bias;  ///< [width]; null: none
  const float* gain;  ///< [width]; null: no norm
  float eps, factor;
  std::int64_t width;
  float* to;
};
void branch_rows(const BranchTask& task, std::int64_t num_rows, const Stream& stream);

/// Computes 1 / sqrt(mean(x²) + eps) of the first `q` numbers of a row plus bias, and of the next `k`: [num_rows, 2].
struct ProjectionTask {
  GemmRows heads;
  const float* bias;  ///< null: none
  std::int64_t q, k;
  float eps;
  float* inverse_rms_N2;
};
void projection_rms(const ProjectionTask& task, std::int64_t num_rows, const Stream& stream);

/// Computes out = quantize(x), with x fp32 [num_rows, out.width].
struct QuantizeTask {
  const float* x;
  QuantizedRows out;
  /// Also receives the values in bf16 before a rotation, in rows of out.stride numbers; null: none.
  std::uint16_t* wide = nullptr;
};
void quantize_rows(const QuantizeTask& task, std::int64_t num_rows, const Stream& stream);

/// Computes out = quantize(activation(gate) · up). A row of `halves` is out.width numbers of gate, then out.width of
/// up.
struct SwigluTask {
  GemmRows halves;
  QuantizedRows out;
  std::uint16_t* wide = nullptr;  ///< as in QuantizeTask
  base::Gate activation = base::Gate::silu;
};
void swiglu_quantize(const SwigluTask& task, std::int64_t num_rows, const Stream& stream);

/// Converts the host's panels (ops/linear.h) to rows of device words (layout.h, device_word). Reads the first at.out
/// outputs only.
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
