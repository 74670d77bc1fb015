// Owns the estimate of a decoding tick's time on an H200, from bytes, and from instructions that were counted in the
// machine code. Nothing is measured: it says what to expect, and a measurement far from it what to look at.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "cuda/bench/bench_plan.h"

namespace qrl::app {

/// What differs from GPU to GPU, or is argued about. Defaults: an H200, which copies at 4.3 TB/s, reads some 6 %
/// faster, and multiplied normal values at 788 TFLOP/s in bf16.
struct GpuFigures {
  double read_bytes_per_s = 4.55e12;
  double matmul_flops = 7.88e14;   ///< bf16; of 8 bits twice as many
  double small_kernel_s = 3.5e-6;  ///< norm, rotation, activation, quantizing; attention's and its join's own time
};

/// Thread instructions that the streamed matmul's inner loop takes for each quantized weight, by rows of its tile.
using InnerLoops = std::map<std::int64_t, double>;
/// Of a format, from what `scripts/gpu/kernels --json` printed, sm_90a's. Input errors: no such file, another form.
InnerLoops read_inner_loops(const std::string& file, const std::string& format);

struct TickEstimate {
  double tick_s = 0, matmul_s = 0;  ///< of it in matmuls, lm_head among them
  double limit_s = 0;               ///< the roofline: max(bytes / reading, operations / matrix units)
  std::string bound;                ///< of a layer's largest matrix: memory, issue slots, L2 or matrix units
};
TickEstimate estimate_tick(const cuda::TickSpeedTask& task, std::int64_t batch, std::int64_t context,
                           const InnerLoops& loops, const GpuFigures& gpu);

/// A sentence on how it is made.
extern const char* const kHowEstimated;

}  // namespace qrl::app
