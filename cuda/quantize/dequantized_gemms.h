// Owns GEMMs of many rows that dequantize the matrix to bf16 once, and the memory for it. Knows nothing of the library
// that computes the bf16 GEMM.
#pragma once

#include <functional>

#include "cuda/runtime/growing_memory.h"
#include "cuda/runtime/kernels.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Runs dequantized GEMMs. Only one stream at a time may use the object.
class DequantizedGemms {
 public:
  using Bf16Gemm = std::function<void(const GemmTask&)>;

  /// rows_at_once: the most rows of quantized activations to dequantize at once.
  explicit DequantizedGemms(std::int64_t rows_at_once = kDequantizedRowsAtOnce) : rows_at_once_(rows_at_once) {}

  /// Allocates the memory that a tick's GEMMs with such a matrix need, unless it exists.
  void reserve(const DeviceMatrix& w);
  /// Forbids reserved memory to move, since recorded ticks contain its address; false allows it again. Memory without a
  /// reservation, used only by a learner's GEMMs, may always move.
  void set_fixed(bool is_fixed) { may_move_.is_recorded = is_fixed; }
  /// Returns the bytes that it has allocated (decode_engine.h, dequantized_bytes).
  std::int64_t num_bytes() const { return static_cast<std::int64_t>(weights_.num_bytes() + rows_.num_bytes()); }

  /// Computes the task's GEMM (int4 or fp8_block128) with multiply_bf16, on operands that are scaled and then rounded
  /// to bf16. This rounding is at most a relative 2⁻⁹ of each weight, and of each activation for fp8_block128. The
  /// result differs from the quantized values' GEMM by at most 2⁻⁹ · Σ |x · w|, or (2⁻⁸ + 2⁻¹⁸) · Σ |x · w| for
  /// fp8_block128. The fp32 rounding of the sums is additional.
  void multiply(const GemmTask& task, const Bf16Gemm& multiply_bf16, const Stream& stream);

 private:
  void fit(const DeviceMatrix& w);

  std::int64_t rows_at_once_;
  MayMove may_move_;
  Memory weights_, rows_;
};

}  // namespace qrl::cuda::QRL_CUDA_TARGET
