// Stands in for the CUDA backend in a program that was built without it.
#include "base/error.h"
#include "engine.h"
#include "speed.h"

namespace qrl::cuda {

std::string version() { return "off"; }

namespace {
[[noreturn]] void fail() {
  base::fail_input("rollout.device", "cpu, as this program was built without CUDA", "cuda",
                   "build it where nvcc is (cmake -DQRL_CUDA=on says what is missing)");
}
}  // namespace

std::unique_ptr<Engine> make_engine(const EngineOptions&) { fail(); }
ProductSpeeds measure_products(const ProductSpeedTask&) { fail(); }
AttentionSpeed measure_attention(const AttentionSpeedTask&) { fail(); }
TickSpeeds measure_ticks(const TickSpeedTask&) { fail(); }

}  // namespace qrl::cuda
