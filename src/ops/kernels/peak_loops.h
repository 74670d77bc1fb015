#pragma once

#include <cstdint>

namespace qrl::ops {

/// Run `rounds` rounds of multiply-adds in registers, in enough chains to fill the pipelines. Return the number of
/// operations, two per multiply-add. Plain types only (simd.h).
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
