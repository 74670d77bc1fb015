// Owns the measurement of this machine's peak rates, for comparison in benchmarks.
#pragma once

namespace qrl::ops {

/// Rates over all threads of the process.
struct Ceilings {
  double int8_ops_per_s = 0;  ///< int8 multiply-adds, two operations each
  double bf16_flops_per_s = 0;
  double f32_flops_per_s = 0;
  double dram_bytes_per_s = 0;  ///< reads of memory beyond all caches
};

/// Measures each rate for about a tenth of a second and keeps the best of several tries. Uses 512 MiB of memory
/// meanwhile.
Ceilings measure_ceilings();

}  // namespace qrl::ops
