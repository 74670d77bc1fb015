// Owns measuring this machine's ceilings on the ISA path and threads in use: the rates that benchmarks compare their
// figures with. Knows nothing of models.
#pragma once

namespace qrl::ops {

/// Rates over all of the process's threads.
struct Ceilings {
  double int8_ops_per_s = 0;  ///< multiply-adds of int8 values, two operations each
  double bf16_flops_per_s = 0;
  double f32_flops_per_s = 0;
  double dram_bytes_per_s = 0;  ///< reading memory that fits no cache
};

/// Measures each for about a tenth of a second, best of several tries; needs 512 MiB of memory meanwhile.
Ceilings measure_ceilings();

}  // namespace qrl::ops
