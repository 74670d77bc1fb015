// Owns how fast whole ticks are on the device in use. Knows nothing of their kernels.
#pragma once

#include "cuda/bench/speed.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// speed.h's measure_ticks.
TickSpeeds measure_tick_speeds(const TickSpeedTask& task);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
