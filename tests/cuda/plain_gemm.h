// Owns the contract of the reference GEMM, which tests compare the program's GEMM kernels with.
#pragma once

#include "cuda/runtime/operands.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Computes a GemmTask of any format that does not add to y, on tensor cores from sm_80. Its loop overlaps nothing.
void plain_gemm(const GemmTask& task, const Stream& stream);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
