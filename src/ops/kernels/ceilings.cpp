#include "ops/kernels/ceilings.h"

#include "ops/kernels/simd.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

namespace {

// Latency 4–5 of two pipelines (Zen 4; Intel's processors for fp32): twelve chains fill them and fit sixteen registers.
constexpr int kChains = 12;

/// Runs step(accumulator) on kChains accumulators; the empty asm keeps the compiler from merging or dropping rounds.
template <class Vec, class Step>
std::int64_t measure_chains(std::int64_t rounds, std::int64_t operations_per_step, Step step) {
  Vec chains[kChains] = {};
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (int i = 0; i < kChains; ++i) {
      step(chains[i]);
#if defined(QRL_ISA_PORTABLE)
      __asm__ volatile("" : "+x"(chains[i]));
#else
      __asm__ volatile("" : "+v"(chains[i]));
#endif
    }
  }
  return rounds * kChains * operations_per_step;
}

std::int64_t ceiling_f32(std::int64_t rounds) {
  const VecF factor = splat(0.999F);
  return measure_chains<VecF>(rounds, 2 * kLanes, [factor](VecF& chain) { chain = fma(chain, factor, factor); });
}

#if defined(QRL_ISA_AVX512)
std::int64_t ceiling_int8(std::int64_t rounds) {
  const __m512i quantized = _mm512_set1_epi8(3);
  return measure_chains<__m512i>(
      rounds, 128, [quantized](__m512i& chain) { chain = _mm512_dpbusd_epi32(chain, quantized, quantized); });
}
std::int64_t ceiling_bf16(std::int64_t rounds) {
  const __m512bh pair = (__m512bh)_mm512_set1_epi16(0x3f80);
  return measure_chains<__m512>(rounds, 64, [pair](__m512& chain) { chain = _mm512_dpbf16_ps(chain, pair, pair); });
}
#elif defined(QRL_ISA_AVX2)
std::int64_t ceiling_int8(std::int64_t rounds) {  // widened to 16 bits: no saturating product
  const __m256i quantized = _mm256_set1_epi16(3);
  return measure_chains<__m256i>(rounds, 32, [quantized](__m256i& chain) {
    chain = _mm256_add_epi32(chain, _mm256_madd_epi16(quantized, quantized));
  });
}
std::int64_t ceiling_bf16(std::int64_t rounds) { return ceiling_f32(rounds); }
#else
std::int64_t ceiling_int8(std::int64_t rounds) { return ceiling_f32(rounds); }
std::int64_t ceiling_bf16(std::int64_t rounds) { return ceiling_f32(rounds); }
#endif

std::int64_t ceiling_read(const void* bytes, std::int64_t num_bytes) {
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

constinit const CeilingKernels kCeilings = {
    .int8 = ceiling_int8, .bf16 = ceiling_bf16, .f32 = ceiling_f32, .read = ceiling_read};

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
