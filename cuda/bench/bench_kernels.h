// Contracts of the kernels that benchmarks alone have: operands that are as real numbers are, and memory that is
// read once. As in kernels.h every
// pointer is device memory, nothing is owned.
#pragma once

#include <cstdint>

#include "cuda/runtime/runtime.h"
#include "quant/format.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// `count` normal random values of mean 0 and standard deviation `sigma`, stored as `element`: fp32, bf16 (nearest
/// even), or as if quantized with scale 1 (int8 and e4m3, nearest even, clamped to their range). Always finite, no
/// larger than 5.4 sigma; the same values for the same seed on the same device, each by itself, whatever the count.
struct NormalTask {
  quant::Element element;  ///< f32, bf16, int8 or fp8_e4m3
  float sigma;
  std::uint64_t seed;
  std::int64_t count;
  void* to;
};
void fill_normal(const NormalTask& task, const Stream& stream);

/// Reads every word of `from` once, 16 bytes a load, and leaves num_read_sums(num_bytes) sums of them (mod 2³²), which
/// together are the sum of all words. num_bytes: a multiple of 16.
struct ReadTask {
  const void* from;
  std::int64_t num_bytes;
  std::uint32_t* sums;
};
std::int64_t num_read_sums(std::int64_t num_bytes);
void read_once(const ReadTask& task, const Stream& stream);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
