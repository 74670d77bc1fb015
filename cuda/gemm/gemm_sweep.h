#pragma once

#include <functional>
#include <map>
#include <tuple>

#include "cuda/gemm/gemm_plan.h"
#include "cuda/runtime/operands.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Returns the device's seconds for what `launch` enqueues, with cold caches. May call `launch` several times.
using LaunchTimer = std::function<double(const std::function<void()>& launch, const Stream& stream)>;

/// Picks the fastest of gemm_choices once per format, matrix shape and padded number of rows. A GEMM that adds to y is
/// always streamed, because a library rounds the product to bf16 before adding.
class GemmSweep {
 public:
  GemmSweep(const GemmRules& rules, const DeviceLimits& limits, LaunchTimer timer)
      : rules_(rules), limits_(limits), timer_(std::move(timer)) {}

  /// Returns the fastest choice for this GEMM. A shape's first call measures the time of make(choice) for each choice,
  /// in stream order. The first call must not occur in a graph capture.
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
