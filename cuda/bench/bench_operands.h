// Owns the operands of benchmarks: quantized normal random values. Kernels would run faster on random bits, because
// infinities and NaN take less power.
#pragma once

#include <vector>

#include "cuda/attention/kv.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Number of random values that a fill repeats. It is a prime, so that a matrix's rows begin at different values.
inline constexpr std::int64_t kNormalPeriod = 100'003;

/// Returns the scale that quantizes values of standard deviation 1. Returns 1 for elements without a scale. Magnitudes
/// above 2.7 (e4m3: 5) are clamped.
float unit_scale(quant::Element element);

/// Fills memory with quantized normal random values. Multiplied by unit_scale(element), they have mean 0 and standard
/// deviation `sigma`.
void fill_normal(quant::Element element, float sigma, std::uint64_t seed, std::int64_t num_bytes, void* to,
                 const Stream& stream);
Memory normal_memory(quant::Element element, float sigma, std::uint64_t seed, std::int64_t num_bytes,
                     const Stream& stream);

void fill_floats(float value, std::int64_t count, float* to, const Stream& stream);

/// Fills pages with keys and values of standard deviation 1.
void fill_pages(const KvPages& pages, std::int64_t num_pages, const Stream& stream);
quant::Element element_of(quant::KvFormat format);

std::vector<std::int32_t> shuffled_pages(std::int64_t first, std::int64_t count);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
