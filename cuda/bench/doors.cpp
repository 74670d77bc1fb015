// speed.h in a program with CUDA.
#include "cuda/bench/device_speed.h"
#include "cuda/bench/speed.h"

namespace qrl::cuda {

GemmSpeeds measure_gemms(const GemmSpeedTask& task) { return device::measure_gemm_speeds(task); }
AttentionSpeed measure_attention(const AttentionSpeedTask& task) { return device::measure_attention_speed(task); }
TickSpeeds measure_ticks(const TickSpeedTask& task) { return device::measure_tick_speeds(task); }

}  // namespace qrl::cuda
