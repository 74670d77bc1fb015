#include "ops/peak_rates.h"

#include <algorithm>
#include <atomic>

#include "base/clock.h"
#include "ops/isa.h"
#include "ops/kernels/kernels.h"
#include "ops/kernels/peak_loops.h"

namespace qrl::ops {

namespace {

PeakLoops loops_of_isa() {
  PeakLoops loops = for_this_isa(avx512::kPeakLoops, avx2::kPeakLoops, portable::kPeakLoops);
  if (isa() == Isa::amx) loops.bf16 = tiles().peak_loops.bf16;
  return loops;
}

}  // namespace

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
  return best_rate([loops = loops_of_isa()](base::Team&) { return loops.bf16(kPeakRounds); });
}

double measure_f32_flops_per_s() {
  return best_rate([loops = loops_of_isa()](base::Team&) { return loops.f32(kPeakRounds); });
}

}  // namespace qrl::ops
