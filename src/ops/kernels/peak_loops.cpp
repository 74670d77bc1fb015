#include "ops/kernels/chains.h"
#include "ops/kernels/kernels.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

std::int64_t peak_f32(std::int64_t rounds) {
  const VecF factor = splat(0.999F);
  return run_chains<VecF>(rounds, 2 * kLanes, [factor](VecF& chain) { chain = fma(chain, factor, factor); });
}

#if defined(QRL_ISA_AVX512)
std::int64_t peak_bf16(std::int64_t rounds) {
  const __m512bh pair = (__m512bh)_mm512_set1_epi16(0x3f80);
  return run_chains<__m512>(rounds, 64, [pair](__m512& chain) { chain = _mm512_dpbf16_ps(chain, pair, pair); });
}
#endif

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
