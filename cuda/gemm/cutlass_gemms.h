// Owns the contract of the 8-bit GEMMs on Hopper. Knows nothing of CUTLASS, so that its callers compile fast.
#pragma once

#include <cstddef>

#include "cuda/runtime/kernels.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// The GEMMs' memory and settings besides their operands.
struct CutlassPlace {
  void* workspace = nullptr;  ///< device memory
  std::size_t workspace_bytes = 0;
  int num_multiprocessors = 0;
};

/// Computes an int8 GEMM with exact int32 sums; y is bf16 or fp32. Both functions need y_stride to be a multiple of 8,
/// one scale per token and channel, and compute capability 9.0.
void cutlass_int8(const GemmTask& task, const CutlassPlace& place, const Stream& stream);
/// Computes an e4m3 GEMM; y is bf16. Sums are fp32. The tensor core's own sums are narrower, and are added to fp32
/// registers every 128 inputs.
void cutlass_fp8(const GemmTask& task, const CutlassPlace& place, const Stream& stream);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
