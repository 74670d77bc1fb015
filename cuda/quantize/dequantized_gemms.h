// Owns GEMMs of many rows with a quantized matrix that is dequantized to bf16 once, and the memory for that. Knows
// nothing of the library that computes the bf16 GEMM.
#pragma once

#include <functional>

#include "cuda/runtime/growing_memory.h"
#include "cuda/runtime/kernels.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// One stream's at a time.
class DequantizedGemms {
 public:
  using Bf16Gemm = std::function<void(const GemmTask&)>;

  /// rows_at_once: of activations, where they are quantized, too.
  explicit DequantizedGemms(std::int64_t rows_at_once = kDequantizedRowsAtOnce) : rows_at_once_(rows_at_once) {}

  /// Allocates the memory that a tick's GEMMs with such a matrix need, unless it exists.
  void reserve(const DeviceMatrix& w);
  /// Forbids reserved memory to move from now on, since recorded ticks name its address; false allows it again. Memory
  /// that only a learner's GEMMs use, and nothing reserved, may always move.
  void set_fixed(bool is_fixed) { may_move_.is_recorded = is_fixed; }
  /// That it has made (decode_engine.h, dequantized_bytes).
  std::int64_t num_bytes() const { return static_cast<std::int64_t>(weights_.num_bytes() + rows_.num_bytes()); }

  /// The task's GEMM (int4 or fp8_block128) by multiply_bf16, of operands that are rounded to bf16 after they were
  /// scaled: a relative 2⁻⁹ at most of each weight, of fp8_block128 of each activation, too. So of Σ |x · w| the result
  /// is 2⁻⁹, or 2⁻⁸ + 2⁻¹⁸, from the GEMM of the quantized values at most, besides the sums' own fp32 roundings.
  void multiply(const GemmTask& task, const Bf16Gemm& multiply_bf16, const Stream& stream);

 private:
  void fit(const DeviceMatrix& w);

  std::int64_t rows_at_once_;
  MayMove may_move_;
  Memory weights_, rows_;
};

}  // namespace qrl::cuda::QRL_CUDA_TARGET
