#include "ops/ceilings.h"

#include <algorithm>
#include <atomic>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/threads.h"
#include "ops/isa.h"
#include "ops/kernels/ceilings.h"

namespace qrl::ops {

namespace {

/// Best rate of `work`, which every thread runs and which returns what it did.
template <class Work>
double best_rate(Work work) {
  double best = 0;
  for (int attempt = 0; attempt < 5; ++attempt) {
    std::atomic<std::int64_t> done{0};
    const double start_s = base::now_s();
    base::parallel(0, [&](base::Team& team) { done += work(team); });
    best = std::max(best, static_cast<double>(done.load()) / (base::now_s() - start_s));
  }
  return best;
}

constexpr std::int64_t kRounds = 4'000'000;  // of twelve instructions: about 10 ms

CeilingKernels kernels() {
  CeilingKernels loops = for_this_isa(avx512::kCeilings, avx2::kCeilings, portable::kCeilings);
  if (isa() == Isa::amx) {
    loops.int8 = amx::kCeilings.int8;
    loops.bf16 = amx::kCeilings.bf16;
  }
  return loops;
}

}  // namespace

double measure_bf16_flops_per_s() {
  return best_rate([loops = kernels()](base::Team&) { return loops.bf16(kRounds); });
}

double measure_f32_flops_per_s() {
  return best_rate([loops = kernels()](base::Team&) { return loops.f32(kRounds); });
}

Ceilings measure_ceilings() {
  const CeilingKernels loops = kernels();
  Ceilings ceilings;
  ceilings.int8_ops_per_s = best_rate([&](base::Team&) { return loops.int8(kRounds); });
  ceilings.bf16_flops_per_s = measure_bf16_flops_per_s();
  ceilings.f32_flops_per_s = measure_f32_flops_per_s();
  constexpr std::int64_t kReadBytes = std::int64_t{512} << 20;
  const base::Buffer memory(base::DType::u8, {kReadBytes});
  ceilings.dram_bytes_per_s = best_rate([&](base::Team& team) {
    const base::Range mine = team.slice(kReadBytes, 1024);
    return loops.read(memory.as<std::uint8_t>() + mine.begin, mine.size());
  });
  return ceilings;
}

}  // namespace qrl::ops
