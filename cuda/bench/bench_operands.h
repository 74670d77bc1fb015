// Owns the operands that benchmarks give to kernels: normal random values as they are once quantized. Uniform random
// bits would be infinities and NaN in bf16, which take less power than numbers, so that the device would seem faster
// than it is. Knows nothing of what is timed.
#pragma once

#include <vector>

#include "cuda/runtime/kernels.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Values that differ; then the same ones come again. A prime, so that rows of a matrix begin at different ones.
inline constexpr std::int64_t kNormalPeriod = 100'003;

/// Returns the scale under which quantized values have deviation 1: the largest that is not clamped is 2.7, of e4m3 5.
/// Elements without a scale: 1.
float unit_scale(quant::Element element);

/// Fills memory with normal random values of mean 0 and deviation `sigma` under unit_scale(element), rounded to nearest
/// even and clamped; of int4 two a byte. They are made on the host, the same for the same seed.
void fill_normal(quant::Element element, float sigma, std::uint64_t seed, std::int64_t num_bytes, void* to,
                 const Stream& stream);
/// Makes new memory so.
Memory normal_memory(quant::Element element, float sigma, std::uint64_t seed, std::int64_t num_bytes,
                     const Stream& stream);

/// Makes all floats alike.
void fill_floats(float value, std::int64_t count, float* to, const Stream& stream);

/// Fills pages with keys and values of deviation 1, and the scales of int8's slots.
void fill_pages(const KvPages& pages, std::int64_t num_pages, const Stream& stream);
/// Returns the element that a format's pages hold.
quant::Element element_of(quant::KvFormat format);

/// Returns `count` pages from `first` on, in no order.
std::vector<std::int32_t> shuffled_pages(std::int64_t first, std::int64_t count);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
