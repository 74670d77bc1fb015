// Owns the measurement of this machine's peak operations per second, by which `perf/mfu` divides.
#pragma once

#include <cstdint>
#include <functional>

#include "base/threads.h"

namespace qrl::ops {

/// Measures the rate of bf16 or fp32 multiply-adds over all threads of the process; takes about a tenth of a second. A
/// multiply and an add count as two operations.
double measure_bf16_flops_per_s();
double measure_f32_flops_per_s();

/// Runs `work` on every thread several times and returns the best rate. `work` returns its number of operations.
double best_rate(const std::function<std::int64_t(base::Team&)>& work);
/// Rounds of a peak loop that take about 10 ms, at twelve instructions per round.
inline constexpr std::int64_t kPeakRounds = 4'000'000;

}  // namespace qrl::ops
