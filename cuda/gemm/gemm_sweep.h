// Owns the choice among the ways to compute a GEMM: the fastest measured one. Knows nothing of kernels.
#pragma once

#include <functional>
#include <map>
#include <tuple>

#include "cuda/gemm/gemm_plan.h"
#include "cuda/runtime/kernels.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Measures the seconds that work of `launch` takes on the device, with cold caches. May call `launch` any number of
/// times.
using LaunchTimer = std::function<double(const std::function<void()>& launch, const Stream& stream)>;

/// Picks a GEMM's fastest way, once per format, matrix shape and padded number of rows. The first such GEMM is itself
/// timed and may run several times. No result depends on the pick, because all choices of gemm_plan.h give the same
/// bits. A GEMM that adds to y runs once and is always streamed, because a library rounds the product to bf16 before it
/// adds.
class GemmSweep {
 public:
  GemmSweep(const GemmRules& rules, const DeviceLimits& limits, LaunchTimer timer)
      : rules_(rules), limits_(limits), timer_(std::move(timer)) {}

  /// Returns the way to compute this GEMM. Calls make(choice) to time it, in the stream's order, if there is more than
  /// one choice and none was picked yet. This must not happen during a graph capture (runtime.h).
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
