#pragma once

#include <cstdint>
#include <functional>

#include "base/threads.h"

namespace qrl::ops {

/// Measure bf16 or fp32 multiply-adds, two operations each, over all threads for 0.1 s, for `perf/mfu`.
double measure_bf16_flops_per_s();
double measure_f32_flops_per_s();

/// Returns the best rate of several runs of `work` on every thread. `work` returns its operations.
double best_rate(const std::function<std::int64_t(base::Team&)>& work);
/// A peak loop of twelve instructions takes about 10 ms for these rounds.
inline constexpr std::int64_t kPeakRounds = 4'000'000;

}  // namespace qrl::ops
