#pragma once

namespace qrl::ops {

struct Ceilings {
  double int8_ops_per_s = 0;  ///< multiply-adds, two operations each
  double bf16_flops_per_s = 0;
  double f32_flops_per_s = 0;
  double dram_bytes_per_s = 0;  ///< reads of memory larger than all caches
};

/// Measures this machine's peak rates for 0.1 s each. Allocates 512 MiB.
Ceilings measure_ceilings();

}  // namespace qrl::ops
