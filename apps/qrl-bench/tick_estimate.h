// Owns the estimate of a decode tick's time on an H100, from bytes, counted instructions, and kernel times traced on
// 2026-11-26.
#pragma once

#include <cstdint>
#include <string>

#include "cuda/bench/speed.h"

namespace qrl::app {

/// Holds figures that differ between GPUs or are uncertain. The defaults were measured on an H100 80GB on 2026-11-26.
struct GpuFigures {
  double read_bytes_per_s = 3.09e12;
  double matmul_flops = 7.45e14;   ///< peak of bf16; 8-bit formats reach twice this
  double small_kernel_s = 3.0e-6;  ///< a norm, rotation, activation, quantization or combine kernel of few rows
};

struct TickEstimate {
  double tick_s = 0, matmul_s = 0;  ///< matmul_s includes lm_head and sampling
  double limit_s = 0;               ///< roofline: max(bytes / read bandwidth, operations / peak)
  std::string bound;                ///< what limits a layer's largest matrix: memory, issue slots, L2 or tensor cores
};
TickEstimate estimate_tick(const cuda::TickSpeedTask& task, std::int64_t batch, std::int64_t context,
                           const GpuFigures& gpu);

extern const char* const kHowEstimated;

}  // namespace qrl::app
