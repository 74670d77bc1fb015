#pragma once

#include <cstdint>
#include <functional>

#include "base/threads.h"

namespace qrl::ops {

/// Return the peak rate of bf16 or fp32 multiply-adds, two operations each, on all threads, for perf/mfu. Each call
/// takes about 0.1 s.
double measure_bf16_flops_per_s();
double measure_f32_flops_per_s();

/// Returns the best rate of several runs of `work` on all threads. `work` returns its operation count.
double best_rate(const std::function<std::int64_t(base::Team&)>& work);
/// Number of rounds for which a peak loop of twelve instructions takes about 10 ms.
inline constexpr std::int64_t kPeakRounds = 4'000'000;

}  // namespace qrl::ops
