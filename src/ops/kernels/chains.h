#pragma once

#include <cstdint>

#include "ops/kernels/simd.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

// Twelve chains of dependent instructions fill two pipelines with a latency of 4 to 5 cycles, and fit in sixteen
// registers.
inline constexpr int kChains = 12;

/// Runs step(accumulator) on kChains accumulators, `rounds` times; returns the operation count. The empty asm keeps the
/// compiler from merging rounds.
template <class Vec, class Step>
std::int64_t run_chains(std::int64_t rounds, std::int64_t operations_per_step, Step step) {
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

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
