#pragma once

#include <memory>
#include <string>

#include "cuda/gemm/block_scales.h"
#include "cuda/runtime/operands.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Runs cuBLASLt's GEMMs of bf16 and e4m3, with a plan per shape and planned_rows (plan_cache.h). bf16 GEMMs sum in
/// fp32. Their order of sums depends on the plan, so a row's bits may depend on the number of rows.
class CublasLt {
 public:
  /// Loads the library at run time from cublaslt_places (libraries.h). Throws an input error if that fails.
  CublasLt();
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  void multiply(const GemmTask& task, const Stream& stream);
  /// Computes a GEMM of fp8_block128 with a bf16 result. The tensor core sums each 128 products with some 13 fractional
  /// bits. The results are added in fp32. Returns why the library refuses the GEMM on this device, and then computes
  /// nothing; empty if it accepts.
  std::string multiply(const BlockScaledTask& task, const Stream& stream);
  /// Returns the same without computing.
  std::string refusal_of(const BlockScaledTask& task);
  /// Computes a GEMM of fp8_tensor or fp8_channel with a bf16 result. Each row of x and each output of W has a scale.
  /// The library chooses how many products the tensor core sums before it adds them in fp32. Returns a refusal like
  /// `multiply`.
  std::string multiply_row_scaled(const GemmTask& task, const Stream& stream);
  std::string version() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace qrl::cuda::QRL_CUDA_TARGET
