// Owns the list of loops that only benchmarks time, on each ISA path. Plain types only (see ops/kernels/simd.h).
#pragma once

#include <cstdint>

namespace qrl::ops {

struct BenchLoops {
  /// Runs `rounds` rounds of the path's int8 multiply-add in registers and returns the number of operations.
  std::int64_t (*int8)(std::int64_t rounds);
  /// Reads every byte once and returns the number of bytes. num_bytes: a multiple of 1024.
  std::int64_t (*read)(const void* bytes, std::int64_t num_bytes);
};

namespace amx {
extern const BenchLoops kBenchLoops;  ///< int8 only; read is null
}
namespace avx512 {
extern const BenchLoops kBenchLoops;
}
namespace avx2 {
extern const BenchLoops kBenchLoops;
}
namespace portable {
extern const BenchLoops kBenchLoops;
}

}  // namespace qrl::ops
