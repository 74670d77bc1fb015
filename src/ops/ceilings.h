// Owns measuring what this machine can do at most, on the ISA path and threads in use: what benchmarks hold their
// figures against. Knows nothing of models.
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
/// bf16's or fp32's rate alone.
double measure_bf16_flops_per_s();
double measure_f32_flops_per_s();

}  // namespace qrl::ops
