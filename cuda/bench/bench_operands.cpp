#include "cuda/bench/bench_operands.h"

#include "base/error.h"
#include "cuda/bench/bench_kernels.h"
#include "cuda/quantize/quantize_weights.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

// Any that differ.
constexpr std::uint64_t kWeightSeed = 1, kRowSeed = 2;

std::size_t float_bytes(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); }

}  // namespace

Memory normal_floats(std::int64_t count, float sigma, std::uint64_t seed, const Stream& stream) {
  Memory values(float_bytes(count));
  fill_normal({quant::Element::f32, sigma, seed, count, values.data()}, stream);
  return values;
}

Memory quantize_normal_matrix(quant::Format format, const MatrixLayout& at, void* quantized, const Stream& stream) {
  const quant::FormatSpec& what = quant::spec(format);
  const Memory weights = normal_floats(at.out * at.in, kBenchWeightSigma, kWeightSeed, stream);
  Memory scales = Memory::zeroed(float_bytes(at.num_scales * at.rows));  // of padded outputs, too
  const Memory magnitudes(float_bytes(num_magnitudes(what.scope, at.out, at.num_scales)));
  const Memory not_finite = Memory::zeroed(sizeof(std::uint32_t));
  quantize_weights({weights.as<float>(), at.out, nullptr, nullptr, what.weights, what.scope,
                    what.scale_inputs == 0 ? at.in : what.scale_inputs, word_order(format), at, 0,
                    static_cast<std::uint8_t*>(quantized), scales.as<float>(), magnitudes.as<std::uint32_t>(),
                    not_finite.as<std::uint32_t>()},
                   stream);
  std::uint32_t found = 0;
  copy_to_host(&found, not_finite.data(), sizeof found, stream);
  stream.wait();
  QRL_INVARIANT(found == 0, "benchmark's weights", "finite numbers", "NaN or infinity");
  return scales;
}

NormalRows::NormalRows(quant::Format format, std::int64_t num_rows, std::int64_t width, const Stream& stream) {
  const quant::FormatSpec& what = quant::spec(format);
  const std::int64_t stride = round_up(width, kInputChunk);
  values = Memory(static_cast<std::size_t>(num_rows * stride * (what.activations == quant::Element::bf16 ? 2 : 1)));
  rows = {what.activations, values.data(), nullptr,
          stride,           width,         what.activation_scale_inputs == 0 ? width : what.activation_scale_inputs};
  if (what.has_activation_scales()) {
    scales = Memory(float_bytes(num_rows * rows.num_scales()));
    rows.scales = scales.as<float>();
  }
  const Memory from = normal_floats(num_rows * width, kBenchRowSigma, kRowSeed, stream);
  quantize_rows({from.as<float>(), rows}, num_rows, stream);
  stream.wait();
}

float page_scale(quant::KvFormat format) {
  return format == quant::KvFormat::int8 ? 2.7F / 127.0F : format == quant::KvFormat::fp8_e4m3 ? 5.0F / 448.0F : 1.0F;
}

void fill_pages(quant::KvFormat format, std::int64_t num_bytes, std::uint64_t seed, void* to, const Stream& stream) {
  const quant::Element element = format == quant::KvFormat::int8       ? quant::Element::int8
                                 : format == quant::KvFormat::fp8_e4m3 ? quant::Element::fp8_e4m3
                                                                       : quant::Element::bf16;
  fill_normal({element, 1.0F / page_scale(format), seed, num_bytes / quant::value_bytes(format), to}, stream);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
