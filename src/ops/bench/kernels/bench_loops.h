// Owns the loops of benchmarks, one set per ISA path.
#pragma once

#include <cstdint>

namespace qrl::ops {

struct BenchLoops {
  /// Runs `rounds` rounds of int8 multiply-adds in registers; returns the operation count.
  std::int64_t (*int8)(std::int64_t rounds);
  /// Reads `bytes` once. num_bytes is a multiple of 1024. Returns num_bytes.
  std::int64_t (*read)(const void* bytes, std::int64_t num_bytes);
};

namespace amx {
extern const BenchLoops kBenchLoops;  ///< sets only `int8`; `read` is null
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
