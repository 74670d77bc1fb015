// Owns which of the ways to make a GEMM is taken: the one that took the least time. Knows nothing of kernels.
#pragma once

#include <functional>
#include <map>
#include <tuple>

#include "cuda/gemm/gemm_plan.h"
#include "cuda/runtime/kernels.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Seconds that what `launch` gives to the stream takes on the device while its weights are in no cache; `launch` may
/// be called any number of times.
using LaunchTimer = std::function<double(const std::function<void()>& launch, const Stream& stream)>;

/// Picks by time, once a format, matrix shape and padded number of rows. The first such GEMM itself is timed. It may
/// run several times, and no result depends on the pick: gemm_plan.h's choices all leave the same bits. A GEMM that
/// adds to y runs once and is always streamed, because a library rounds the product to bf16 before it adds.
class GemmSweep {
 public:
  GemmSweep(const GemmRules& rules, const DeviceLimits& limits, LaunchTimer timer)
      : rules_(rules), limits_(limits), timer_(std::move(timer)) {}

  /// The way to make this GEMM. make(choice) makes it so, in the stream's order; it is called only where there is
  /// more than one choice and none was picked yet, which a graph's recording must not be (runtime.h).
  const GemmChoice& choose(const GemmTask& task, const std::function<void(const GemmChoice&)>& make,
                           const Stream& stream);

 private:
  using Key = std::tuple<quant::Format, std::int64_t, std::int64_t, bool, std::int64_t, bool, bool>;
  GemmRules rules_;
  DeviceLimits limits_;
  LaunchTimer timer_;
  std::map<Key, GemmChoice> picked_;
};

}  // namespace qrl::cuda::QRL_CUDA_TARGET
