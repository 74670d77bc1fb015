#pragma once

#include <functional>

#include "cuda/gemm/gemm_plan.h"
#include "cuda/runtime/operands.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Runs GEMMs of many rows. Each GEMM dequantizes its matrix to bf16 once. Serves one stream at a time.
class DequantizedGemms {
 public:
  using Bf16Gemm = std::function<void(const GemmTask&)>;

  explicit DequantizedGemms(std::int64_t rows_at_once = kDequantizedRowsAtOnce) : rows_at_once_(rows_at_once) {}

  void reserve(const DeviceMatrix& w);
  void set_fixed(bool is_fixed) { may_move_.is_recorded = is_fixed; }
  std::int64_t num_bytes() const { return static_cast<std::int64_t>(weights_.num_bytes() + rows_.num_bytes()); }

  /// Computes an int4 or fp8_block128 GEMM with multiply_bf16, on operands dequantized and rounded to bf16. Apart from
  /// rounding in fp32 sums, the error is at most 2⁻⁹ · Σ |x · w| for int4, and (2⁻⁸ + 2⁻¹⁸) · Σ |x · w| for
  /// fp8_block128.
  void multiply(const GemmTask& task, const Bf16Gemm& multiply_bf16, const Stream& stream);

 private:
  void fit(const DeviceMatrix& w);

  std::int64_t rows_at_once_;
  MayMove may_move_;
  Memory weights_, rows_;
};

}  // namespace qrl::cuda::QRL_CUDA_TARGET
