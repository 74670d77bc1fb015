// Stands in for FlashInfer in a program that was built without it (QRL_FLASHINFER).
#include "base/error.h"
#include "cuda/bench/flashinfer/flashinfer.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

bool has_flashinfer(FlashinferKernel, const AttentionShape&, quant::KvFormat, const DeviceFacts&) { return false; }
std::unique_ptr<Flashinfer> make_flashinfer(FlashinferKernel, const AttentionShape&, quant::KvFormat, std::int64_t) {
  base::fail_internal("FlashInfer", "a program that was built with it", "one without");
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
