// Owns the contract of the 8-bit GEMMs on Hopper. Knows nothing of CUTLASS, so that who calls them compiles fast.
#pragma once

#include <cstddef>

#include "cuda/runtime/kernels.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// What the GEMMs need besides their operands.
struct CutlassPlace {
  void* workspace = nullptr;  ///< on the device
  std::size_t workspace_bytes = 0;
  int num_multiprocessors = 0;
  bool clusters = false;  ///< Trials'; where there is more than one tile of rows, and a bf16 result. Changes no bit.
};

/// int8: exact int32 sums, y bf16 or fp32. Like all of these: y_stride a multiple of 8, one scale a token and a
/// channel, compute capability 9.0.
void cutlass_int8(const GemmTask& task, const CutlassPlace& place, const Stream& stream);
/// e4m3, y bf16: sums fp32; the tensor core's own are narrower and are added to fp32 registers every 128 inputs.
void cutlass_fp8(const GemmTask& task, const CutlassPlace& place, const Stream& stream);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
