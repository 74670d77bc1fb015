#pragma once

#include <cstdint>

#include "cuda/gemm/gemm_plan.h"
#include "cuda/runtime/operands.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Scratch of streamed_gemm: kStreamPartialBytes bytes in `partials`, and kStreamCounters numbers in `counters`, which
/// are zero before and after a call.
struct StreamPlace {
  std::uint32_t* partials;
  std::uint32_t* counters;
};
/// Computes a GEMM of any format on sm_80 or newer. Reads the weights once per 64 rows. In each split (gemm_plan.h),
/// the even and the odd chunks of 128 inputs are summed separately, in order; then the two sums are added. Splits are
/// added in order. Both additions are fp32 (int8: int32). A row's result depends on neither the plan nor other rows.
void streamed_gemm(const GemmTask& task, const StreamPlan& plan, const StreamPlace& place, const Stream& stream);

class StreamedGemms {
 public:
  StreamedGemms()
      : partials_(static_cast<std::size_t>(kStreamPartialBytes)),
        counters_(Memory::zeroed(static_cast<std::size_t>(kStreamCounters) * sizeof(std::uint32_t))) {}
  void multiply(const GemmTask& task, const StreamPlan& plan, const Stream& stream) const {
    streamed_gemm(task, plan, {partials_.as<std::uint32_t>(), counters_.as<std::uint32_t>()}, stream);
  }

 private:
  Memory partials_;
  Memory counters_;  // zero between two GEMMs
};

}  // namespace qrl::cuda::QRL_CUDA_TARGET
