// Owns cuBLASLt: found at run time, so that a program runs where there is none, and its plans a shape. Knows nothing of
// formats other than bf16 and those of e4m3.
#pragma once

#include <memory>
#include <string>

#include "cuda/gemm/block_scales.h"
#include "cuda/runtime/kernels.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// bf16 GEMMs, sums fp32 (in an order that the library chooses for the shape, so a row's bits may depend on how many
/// rows there are).
class CublasLt {
 public:
  /// Throws an input error when the library is not found (LD_LIBRARY_PATH, then the toolkit's usual folder) or does not
  /// start.
  CublasLt();
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  /// Makes a GEMM by the algorithm that the library proposes for the shape.
  void multiply(const GemmTask& task, const Stream& stream);
  /// Makes a GEMM of fp8_block128 with a bf16 result. Sums within 128 inputs are the matrix unit's, with some 13 bits
  /// behind the point; sums of those are fp32.
  void multiply(const BlockScaledTask& task, const Stream& stream);
  /// Returns why the library refuses such a GEMM on this device; empty: it takes it.
  std::string refusal_of(const BlockScaledTask& task);
  /// Makes a GEMM of fp8_tensor or fp8_channel with a bf16 result: task.x.scales has one of each row, task.w.scales one
  /// of each output. Sums are the matrix unit's, as above, added up in fp32 as often as the library chooses.
  void multiply_row_scaled(const GemmTask& task, const Stream& stream);
  /// Returns why the library refuses that; empty: it takes it.
  std::string row_scaled_refusal(const GemmTask& task);
  std::string version() const;  ///< "13.1.0"

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace qrl::cuda::QRL_CUDA_TARGET
