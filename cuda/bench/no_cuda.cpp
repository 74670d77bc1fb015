#include "base/error.h"
#include "cuda/bench/speed.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {
[[noreturn]] void fail() {
  base::fail_input("qrl-bench", "a program built with CUDA", "a program built without CUDA",
                   "build it on a machine with nvcc (cmake -DQRL_CUDA=on says what is missing)");
}
}  // namespace

GemmSpeeds measure_gemms(const GemmSpeedTask&) { fail(); }
AttentionSpeed measure_attention(const AttentionSpeedTask&) { fail(); }
TickSpeeds measure_ticks(const TickSpeedTask&) { fail(); }

}  // namespace qrl::cuda::QRL_CUDA_TARGET
