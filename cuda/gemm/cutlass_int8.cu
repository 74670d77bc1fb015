#include "cuda/gemm/cutlass_gemm.cuh"

namespace qrl::cuda::QRL_CUDA_TARGET {

void cutlass_int8(const GemmTask& task, const CutlassPlace& place, const Stream& stream) {
  cutlass_gemm<std::int8_t, std::int32_t>(task, place, stream);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
