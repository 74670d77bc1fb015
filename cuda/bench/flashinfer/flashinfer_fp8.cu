#include "cuda/bench/flashinfer/flashinfer_attention.cuh"

namespace qrl::cuda::QRL_CUDA_TARGET {

void flashinfer_fp8(const FlashinferLevel& level) { run_flashinfer_level<__nv_fp8_e4m3, ScaledHeads>(level); }

}  // namespace qrl::cuda::QRL_CUDA_TARGET
