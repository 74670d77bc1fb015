// Owns the operands that benchmarks give to kernels: normal random values, made on the device and quantized by the
// engine's own kernels. Uniform random bits would be infinities and NaN in bf16, which take less power than numbers, so
// that the device would seem faster than it is. Knows nothing of what is timed.
#pragma once

#include "cuda/runtime/kernels.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Standard deviations of what is quantized: weights as models are initialized, activations behind a norm.
inline constexpr float kBenchWeightSigma = 0.02F, kBenchRowSigma = 1.0F;

/// Values of the host on the device, when it returns.
template <class T>
Memory sent(const std::vector<T>& values, const Stream& stream) {
  Memory memory(values.size() * sizeof(T));
  copy_to_device(memory.data(), values.data(), memory.num_bytes(), stream);
  stream.wait();
  return memory;
}

/// fp32 values of that deviation.
Memory normal_floats(std::int64_t count, float sigma, std::uint64_t seed, const Stream& stream);

/// A matrix of normal weights in `format`, written to `quantized` (at.num_bytes(), zero before). Returns its scales
/// (empty: none).
Memory quantize_normal_matrix(quant::Format format, const MatrixLayout& at, void* quantized, const Stream& stream);

/// Rows of normal activations as GEMMs of `format` read them.
struct NormalRows {
  NormalRows(quant::Format format, std::int64_t num_rows, std::int64_t width, const Stream& stream);
  Memory values, scales;
  QuantizedRows rows;
};

/// Keys or values of deviation 1, quantized: what a page's quantized values and scales are.
void fill_pages(quant::KvFormat format, std::int64_t num_bytes, std::uint64_t seed, void* to, const Stream& stream);
/// The scale that goes with them, of a slot (int8) or a head (e4m3): their largest value is some 2.7 or 5.
float page_scale(quant::KvFormat format);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
