// Owns the list of loops that src/ops/ceilings.cpp times on each ISA path. Plain types only (see simd.h).
#pragma once

#include <cstdint>

namespace qrl::ops {

/// Each runs `rounds` rounds of the path's multiply-add from registers, in enough independent chains to fill the
/// pipelines, and returns the operations done (a multiply and an add count as two).
struct CeilingKernels {
  std::int64_t (*int8)(std::int64_t rounds);
  std::int64_t (*bf16)(std::int64_t rounds);
  std::int64_t (*f32)(std::int64_t rounds);
  /// Reads every byte once; num_bytes is a multiple of 1024. Returns bytes read.
  std::int64_t (*read)(const void* bytes, std::int64_t num_bytes);
};

namespace amx {
extern const CeilingKernels kCeilings;  ///< int8 and bf16 alone
}
namespace avx512 {
extern const CeilingKernels kCeilings;
}
namespace avx2 {
extern const CeilingKernels kCeilings;
}
namespace portable {
extern const CeilingKernels kCeilings;
}

}  // namespace qrl::ops
