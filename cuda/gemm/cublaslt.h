// Owns cuBLASLt: loads it at run time, so that the program also runs without it, and keeps a plan per shape. Knows no
// formats besides bf16 and those of e4m3.
#pragma once

#include <memory>
#include <string>

#include "cuda/gemm/block_scales.h"
#include "cuda/runtime/kernels.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Runs GEMMs of cuBLASLt. Sums of bf16 are fp32, in an order that the library chooses for the shape. A row's bits may
/// therefore depend on the number of rows.
class CublasLt {
 public:
  /// Loads the library from the places of cublaslt_places (libraries.h). Throws an input error if it is not found or
  /// does not start.
  CublasLt();
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  /// Computes a bf16 GEMM with the algorithm that the library proposes for the shape.
  void multiply(const GemmTask& task, const Stream& stream);
  /// Computes a GEMM of fp8_block128 with a bf16 result. The tensor core sums 128 inputs, with some 13 fractional bits.
  /// These sums are added in fp32.
  void multiply(const BlockScaledTask& task, const Stream& stream);
  /// Returns why the library refuses such a GEMM on this device; empty: it accepts it.
  std::string refusal_of(const BlockScaledTask& task);
  /// Computes a GEMM of fp8_tensor or fp8_channel with a bf16 result. task.x.scales has one scale per row,
  /// task.w.scales one per output. The tensor core's sums, as above, are added in fp32 at intervals that the library
  /// chooses.
  void multiply_row_scaled(const GemmTask& task, const Stream& stream);
  /// Returns why the library refuses such a GEMM; empty: it accepts it.
  std::string row_scaled_refusal(const GemmTask& task);
  std::string version() const;  ///< "13.1.0"

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace qrl::cuda::QRL_CUDA_TARGET
