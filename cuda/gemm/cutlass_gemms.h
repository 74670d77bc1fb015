// Declares CUTLASS's GEMMs without including CUTLASS's headers.
#pragma once

#include <cstddef>

#include "cuda/runtime/operands.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

struct CutlassPlace {
  void* workspace = nullptr;  ///< device memory
  std::size_t workspace_bytes = 0;
  int num_multiprocessors = 0;
};

/// Computes an int8 GEMM with exact int32 sums; y is bf16 or fp32. This and cutlass_fp8 require compute capability 9.0,
/// y_stride a multiple of 8, one scale per token and one per channel.
void cutlass_int8(const GemmTask& task, const CutlassPlace& place, const Stream& stream);
/// Computes an e4m3 GEMM with a bf16 result. Every 128 inputs, the tensor core's narrower sums are added in fp32.
void cutlass_fp8(const GemmTask& task, const CutlassPlace& place, const Stream& stream);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
