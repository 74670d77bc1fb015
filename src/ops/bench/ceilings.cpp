#include "ops/bench/ceilings.h"

#include "base/buffer.h"
#include "ops/bench/kernels/bench_loops.h"
#include "ops/isa.h"
#include "ops/peak_rates.h"

namespace qrl::ops {

namespace {

BenchLoops loops_of_isa() {
  const Isa path = isa();
  BenchLoops loops = path == Isa::portable ? portable::kBenchLoops
                     : path == Isa::avx2   ? avx2::kBenchLoops
                                           : avx512::kBenchLoops;
  if (path == Isa::amx) loops.int8 = amx::kBenchLoops.int8;
  return loops;
}

}  // namespace

Ceilings measure_ceilings() {
  const BenchLoops loops = loops_of_isa();
  Ceilings ceilings;
  ceilings.int8_ops_per_s = best_rate([&](base::Team&) { return loops.int8(kPeakRounds); });
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
