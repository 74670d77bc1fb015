// Owns the choice of the fastest measured way to compute a GEMM.
#pragma once

#include <functional>
#include <map>
#include <tuple>

#include "cuda/gemm/gemm.h"
#include "cuda/gemm/gemm_plan.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Measures the device's seconds for the work of `launch`, called any number of times, with cold caches.
using LaunchTimer = std::function<double(const std::function<void()>& launch, const Stream& stream)>;

/// Picks a GEMM's fastest way, once per format, matrix shape and padded number of rows. The first such GEMM is itself
/// timed, and runs several times. All ways give the same bits (gemm_plan.h). A GEMM that adds to y runs once and is
/// streamed: a library rounds the product to bf16 before it adds.
class GemmSweep {
 public:
  GemmSweep(const GemmRules& rules, const DeviceLimits& limits, LaunchTimer timer)
      : rules_(rules), limits_(limits), timer_(std::move(timer)) {}

  /// Returns the way to compute this GEMM. Calls make(choice) to time it, in the stream's order, if none of several
  /// choices was picked yet; not allowed during a graph capture.
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
