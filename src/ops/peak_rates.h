// Owns measuring how many operations a second this machine computes at most, on the ISA path and threads in use.
// `perf/mfu` divides by it. Knows nothing of models.
#pragma once

#include <cstdint>
#include <functional>

#include "base/threads.h"

namespace qrl::ops {

/// Operations a second of bf16's, and of fp32's, multiply-adds over all of the process's threads. Each measurement
/// takes about a tenth of a second.
double measure_bf16_flops_per_s();
double measure_f32_flops_per_s();

/// The best rate of several tries of `work`, which every thread runs and which returns how much it did.
double best_rate(const std::function<std::int64_t(base::Team&)>& work);
/// Rounds of a peak loop that take about 10 ms: twelve instructions a round.
inline constexpr std::int64_t kPeakRounds = 4'000'000;

}  // namespace qrl::ops
