#include "ops/peak_rates.h"

#include <algorithm>
#include <atomic>

#include "base/clock.h"
#include "ops/kernels/kernels.h"

namespace qrl::ops {

double best_rate(const std::function<std::int64_t(base::Team&)>& work) {
  double best = 0;
  for (int attempt = 0; attempt < 5; ++attempt) {
    std::atomic<std::int64_t> done{0};
    const double start_s = base::now_s();
    base::parallel(0, [&](base::Team& team) { done += work(team); });
    best = std::max(best, static_cast<double>(done.load()) / (base::now_s() - start_s));
  }
  return best;
}

double measure_bf16_flops_per_s() {
  return best_rate([loop = kernels().peak_bf16](base::Team&) { return loop(kPeakRounds); });
}

double measure_f32_flops_per_s() {
  return best_rate([loop = kernels().peak_f32](base::Team&) { return loop(kPeakRounds); });
}

}  // namespace qrl::ops
