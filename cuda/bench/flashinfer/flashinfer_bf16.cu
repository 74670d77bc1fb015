#include "cuda/bench/flashinfer/flashinfer_attention.cuh"

namespace qrl::cuda::QRL_CUDA_TARGET {

void flashinfer_bf16(const FlashinferLevel& level) { run_flashinfer_level<nv_bfloat16, PlainHeads>(level); }

}  // namespace qrl::cuda::QRL_CUDA_TARGET
