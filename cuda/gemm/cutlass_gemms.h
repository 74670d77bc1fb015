// Declares CUTLASS's GEMMs without including CUTLASS's headers.
#pragma once

#include <cstddef>

#include "cuda/runtime/operands.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

struct CutlassPlace {
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  int num_multiprocessors = 0;
};

/// Computes an int8 GEMM with exact int32 sums; y is bf16 or fp32. Like cutlass_fp8, requires compute capability 9.0, a
/// y_stride that is a multiple of 8, and one scale per token and per channel.
void cutlass_int8(const GemmTask& task, const CutlassPlace& place, const Stream& stream);
/// Computes an e4m3 GEMM with a bf16 result. The tensor core's sums of 128 inputs, which are narrower than fp32, are
/// added in fp32.
void cutlass_fp8(const GemmTask& task, const CutlassPlace& place, const Stream& stream);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
