// Owns the estimate of a decoding tick's time on an H100, from bytes, from instructions that were counted in the
// machine code, and from kernels' times in a trace, both of 2026-11-26. It says what to expect, and what to look at
// where a measurement is far from it.
#pragma once

#include <cstdint>
#include <string>

#include "cuda/bench/speed.h"

namespace qrl::app {

/// What differs from GPU to GPU, or is argued about. Defaults: an H100 80GB, as measured on 2026-11-26.
struct GpuFigures {
  double read_bytes_per_s = 3.09e12;
  double matmul_flops = 7.45e14;   ///< bf16; of 8 bits twice as many
  double small_kernel_s = 3.0e-6;  ///< norm, rotation, activation, quantizing, join: of few rows
};

struct TickEstimate {
  double tick_s = 0, matmul_s = 0;  ///< of it in matmuls, lm_head among them
  double limit_s = 0;               ///< the roofline: max(bytes / reading, operations / matrix units)
  std::string bound;                ///< of a layer's largest matrix: memory, issue slots, L2 or matrix units
};
TickEstimate estimate_tick(const cuda::TickSpeedTask& task, std::int64_t batch, std::int64_t context,
                           const GpuFigures& gpu);

/// A sentence on how it is made.
extern const char* const kHowEstimated;

}  // namespace qrl::app
