#include "ops/bench/kernels/bench_loops.h"

#include "ops/kernels/chains.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

namespace {

std::int64_t run_int8(std::int64_t rounds) {
#if defined(QRL_ISA_AVX512)
  const __m512i values = _mm512_set1_epi8(3);
  return run_chains<__m512i>(rounds, 128,
                             [values](__m512i& chain) { chain = _mm512_dpbusd_epi32(chain, values, values); });
#elif defined(QRL_ISA_AVX2)
  const __m256i values = _mm256_set1_epi16(3);  // 16-bit values, because sums of 8-bit products would saturate
  return run_chains<__m256i>(
      rounds, 32, [values](__m256i& chain) { chain = _mm256_add_epi32(chain, _mm256_madd_epi16(values, values)); });
#else
  const VecF factor = splat(0.999F);  // fp32, because this path has no integer dot products
  return run_chains<VecF>(rounds, 2 * kLanes, [factor](VecF& chain) { chain = fma(chain, factor, factor); });
#endif
}

std::int64_t read_bytes(const void* bytes, std::int64_t num_bytes) {
  const auto* floats = static_cast<const float*>(bytes);
  const std::int64_t count = num_bytes / 4;
  VecF sums[4] = {};
  for (std::int64_t i = 0; i < count; i += 4 * kLanes) {
    for (int k = 0; k < 4; ++k) sums[k] = sums[k] + load(floats + i + k * kLanes, All{});
  }
  const VecF sum = sums[0] + sums[1] + sums[2] + sums[3];
  __asm__ volatile("" : : "m"(sum));
  return num_bytes;
}

}  // namespace

constinit const BenchLoops kBenchLoops = {.int8 = run_int8, .read = read_bytes};

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
