#include "cuda/gemm/cutlass_gemm.cuh"

namespace qrl::cuda::QRL_CUDA_TARGET {

void cutlass_fp8(const GemmTask& task, const CutlassPlace& place, const Stream& stream) {
  cutlass_gemm<cutlass::float_e4m3_t, float>(task, place, stream);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
