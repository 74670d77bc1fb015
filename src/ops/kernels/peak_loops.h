// Owns the list of loops that src/ops/peak_rates.cpp times on each ISA path. Plain types only (see simd.h).
#pragma once

#include <cstdint>

namespace qrl::ops {

/// Loops that run `rounds` rounds of the path's multiply-add in registers, with enough independent chains to fill the
/// pipelines. Each returns its number of operations: a multiply and an add count as two.
struct PeakLoops {
  std::int64_t (*bf16)(std::int64_t rounds);
  std::int64_t (*f32)(std::int64_t rounds);
};

namespace avx512 {
extern const PeakLoops kPeakLoops;
}
namespace avx2 {
extern const PeakLoops kPeakLoops;
}
namespace portable {
extern const PeakLoops kPeakLoops;
}

#if defined(QRL_ISA_NAMESPACE)
namespace QRL_ISA_NAMESPACE {
extern const PeakLoops kPeakLoops;
}
#endif

}  // namespace qrl::ops
