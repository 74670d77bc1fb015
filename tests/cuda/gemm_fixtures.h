// Owns the helpers of the GEMM tests: the operands on the device, a GEMM by several kernels, and its exact result.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "cuda/gemm/gemm_plan.h"
#include "device.h"
#include "ops/linear.h"
#include "tests/cuda/plain_gemm.h"

namespace qrl::cuda::test {

using quant::Format;

struct Shape {
  std::int64_t rows, in, out;
};

inline ops::PackedLinear packed(Format format, const Shape& shape) {
  const std::vector<float> weight = normal_values(shape.out * shape.in, 0.3F, 31);
  ops::PackedLinear w = ops::make_packed_linear(format, shape.out, shape.in, false);
  base::Team alone = base::Team::solo();
  REQUIRE(ops::pack_rows(alone, weight.data(), shape.out, 0, w));
  return w;
}

/// Holds quantized x, uploaded W and memory for y: a GEMM for several kernels.
struct GemmCase {
  GemmCase(Format format, const Shape& shape_, const std::vector<float>& x)
      : shape(shape_),
        host(packed(format, shape_)),
        w(upload(host, stream)),
        quantized(format, shape.rows, shape.in),
        partials(static_cast<std::size_t>(kStreamPartialBytes)),
        counters(target::Memory::zeroed(static_cast<std::size_t>(kStreamCounters) * 4)) {
    const OnDevice<float> x_there(x);
    target::quantize_rows({x_there.data(), quantized.rows}, shape.rows, stream);
    stream.wait();
  }

  /// Returns fp32 [rows, out] computed by make(task), without the padding columns beyond `out`.
  template <class Make>
  std::vector<float> run(Make make) const {
    const std::int64_t stride = w.view.at.rows;
    const OnDevice<float> y(std::vector<float>(static_cast<std::size_t>(shape.rows * stride), -77.0F));
    make(target::GemmTask{quantized.rows, shape.rows, w.view, y.data(), stride, true});
    stream.wait();
    const std::vector<float> all = y.read();
    std::vector<float> values;
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      const auto first = all.begin() + row * stride;
      values.insert(values.end(), first, first + shape.out);
    }
    return values;
  }
  std::vector<float> plain() const {
    return run([&](const target::GemmTask& task) { target::plain_gemm(task, stream); });
  }
  std::vector<float> streamed(const StreamPlan& plan) const {
    return run([&](const target::GemmTask& task) {
      target::streamed_gemm(task, plan, {partials.as<std::uint32_t>(), counters.as<std::uint32_t>()}, stream);
    });
  }

  /// Returns the first number whose distance from the exact sum of dequantized products (fp64) exceeds `share` of Σ
  /// |product|.
  std::string first_beyond_exact(const std::vector<float>& y, double share) const {
    const std::vector<float> x = quantized.dequantized();
    std::vector<float> weight(static_cast<std::size_t>(shape.out * shape.in));
    ops::unpack_rows(host, 0, shape.out, weight.data());
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      for (std::int64_t n = 0; n < shape.out; ++n) {
        double sum = 0, size = 0;
        for (std::int64_t i = 0; i < shape.in; ++i) {
          const double product = static_cast<double>(x[static_cast<std::size_t>(row * shape.in + i)]) *
                                 static_cast<double>(weight[static_cast<std::size_t>(n * shape.in + i)]);
          sum += product;
          size += std::fabs(product);
        }
        const auto got = static_cast<double>(y[static_cast<std::size_t>(row * shape.out + n)]);
        if (!(std::fabs(got - sum) <= share * size))
          return "[" + std::to_string(row) + ", " + std::to_string(n) + "] " + std::to_string(got) + ", not " +
                 std::to_string(sum);
      }
    }
    return "";
  }

  Shape shape;
  target::Stream stream;
  ops::PackedLinear host;
  Uploaded w;
  QuantizedOnDevice quantized;
  target::Memory partials, counters;
};

inline constexpr Format kStreamed[] = {
    Format::bf16,         Format::int8,      Format::fp8_tensor,    Format::fp8_channel, Format::fp8_block128,
    Format::int4,         Format::int4_int8, Format::int4_fp8,      Format::int4_g64,    Format::int4_int8_g64,
    Format::int4_fp8_g64, Format::int4_g32,  Format::int4_int8_g32, Format::int4_fp8_g32};

/// Relative to Σ |product|: covers roundings of fp32 sums, of the scales' products, and of the dequantized values.
inline constexpr double kSumShare = 1e-6;

}  // namespace qrl::cuda::test
