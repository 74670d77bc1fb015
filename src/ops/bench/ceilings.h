// Owns the measurement of this machine's peak rates, for benchmarks.
#pragma once

namespace qrl::ops {

struct Ceilings {
  double int8_ops_per_s = 0;  ///< int8 multiply-adds, two operations each
  double bf16_flops_per_s = 0;
  double f32_flops_per_s = 0;
  double dram_bytes_per_s = 0;  ///< reads of memory beyond all caches
};

/// Measures each peak rate for 0.1 s and returns the best of several tries. Allocates 512 MiB.
Ceilings measure_ceilings();

}  // namespace qrl::ops
