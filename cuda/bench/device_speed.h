// Owns the device's part of speed.h: its measurements on the device in use. Knows nothing of how kernels are made.
#pragma once

#include "cuda/bench/speed.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// speed.h's measure_gemms.
GemmSpeeds measure_gemm_speeds(const GemmSpeedTask& task);

/// speed.h's measure_attention.
AttentionSpeed measure_attention_speed(const AttentionSpeedTask& task);

/// speed.h's measure_ticks.
TickSpeeds measure_tick_speeds(const TickSpeedTask& task);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
