// Tests quantization of fp32 weights on the device and back, against the CPU's packing of the same values, bit for bit.
#include "cuda/quantize/quantize_weights.h"

#include <bit>
#include <limits>

#include "device.h"

namespace {

using namespace qrl;
using namespace qrl::cuda;
using namespace qrl::cuda::test;
using quant::Format;

/// Rows of two tensors in one matrix. They share a panel and, if they were one tensor, would share a block.
struct WeightShape {
  std::int64_t first_rows, second_rows, in;
};
constexpr WeightShape kShapes[] = {{1, 2, 7}, {3, 130, 96}, {140, 33, 257}, {64, 1, 384}};

/// Returns ordinary rows and, if the matrix is large enough, zeros of both signs, subnormals, very large values, halves
/// of steps.
std::vector<float> odd_weights(std::int64_t rows, std::int64_t in, std::uint64_t index) {
  std::vector<float> values = normal_values(rows * in, 0.3F, index);
  const auto set = [&](std::int64_t row, auto value) {
    for (std::int64_t i = 0; row < rows && i < in; ++i) values[static_cast<std::size_t>(row * in + i)] = value(i);
  };
  set(1, [](std::int64_t i) { return i % 3 == 0 ? -0.0F : 0.0F; });
  set(2, [&](std::int64_t i) { return values[static_cast<std::size_t>(2 * in + i)] * 1e-38F; });
  set(5, [](std::int64_t i) { return static_cast<float>(i % 40) * std::numeric_limits<float>::denorm_min(); });
  set(7, [&](std::int64_t i) { return values[static_cast<std::size_t>(7 * in + i)] * 1e37F; });
  set(9, [](std::int64_t i) { return static_cast<float>(i % 255 - 127) + (i % 2 == 0 ? 0.5F : 0.0F); });
  set(11, [](std::int64_t i) { return i == 0 ? 7.0F : static_cast<float>(i % 15 - 7) + 0.5F; });
  set(12, [](std::int64_t i) { return i == 0 ? 448.0F : (i % 2 == 0 ? -1.0F : 1.0F) * static_cast<float>(i) / 16; });
  return values;
}

std::vector<std::uint8_t> read_bytes(const void* there, std::int64_t num_bytes, const target::Stream& stream) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(num_bytes));
  target::copy_to_host(bytes.data(), there, bytes.size(), stream);
  stream.wait();
  return bytes;
}

/// Holds a matrix whose quantized values and scales begin as zeros, like the unwritten parts of an upload.
struct Made {
  Made(Format format_, std::int64_t out, std::int64_t in)
      : format(format_),
        at(matrix_layout(format_, out, in)),
        quantized(target::Memory::zeroed(static_cast<std::size_t>(at.num_bytes()))),
        scales(target::Memory::zeroed(static_cast<std::size_t>(at.num_scales * at.rows) * sizeof(float))) {}
  /// Returns whether all weights were finite.
  bool quantize_rows(const float* weights, std::int64_t num_rows, std::int64_t first_row, const float* factors,
                     const float* row_scales, const target::Stream& stream) const {
    const quant::FormatSpec& what = quant::spec(format);
    const auto num_sizes = static_cast<std::size_t>(target::num_magnitudes(what.scope, num_rows, at.num_scales));
    const OnDevice<std::uint32_t> magnitudes(std::vector<std::uint32_t>(num_sizes, 0x5a5a5a5a));
    const OnDevice<std::uint32_t> not_finite(1);
    target::quantize_weights(
        {weights, num_rows, factors, row_scales, what.weights, what.scope,
         what.scale_inputs == 0 ? at.in : what.scale_inputs, rule, word_order(format), at, first_row,
         quantized.as<std::uint8_t>(), scales.as<float>(), magnitudes.data(), not_finite.data()},
        stream);
    stream.wait();
    return not_finite.read()[0] == 0;
  }
  Format format;
  quant::ScaleRule rule = quant::ScaleRule::largest;
  MatrixLayout at;
  target::Memory quantized, scales;
};

/// Compares both tensors quantized by the CPU and uploaded with the same quantized on the device.
void compare(Format format, const WeightShape& shape, bool factored, const target::Stream& stream,
             quant::ScaleRule rule = quant::ScaleRule::largest) {
  const std::int64_t out = shape.first_rows + shape.second_rows;
  const std::vector<float> first = odd_weights(shape.first_rows, shape.in, 3);
  const std::vector<float> second = odd_weights(shape.second_rows, shape.in, 4);
  const std::vector<float> factors = normal_values(shape.in, 1, 5);
  std::vector<float> row_scales = normal_values(out, 0.01F, 6);
  for (float& scale : row_scales) scale = std::fabs(scale);
  row_scales[0] = 0;
  const bool has_row_scales = factored && format == Format::int8;

  ops::PackedLinear packed = ops::make_packed_linear(format, out, shape.in, false);
  packed.scale_rule = rule;
  base::Team alone = base::Team::solo();
  const ops::FixedScales fixed{factored ? factors.data() : nullptr, has_row_scales ? row_scales.data() : nullptr};
  REQUIRE(ops::pack_rows(alone, first.data(), shape.first_rows, 0, packed, fixed));
  const ops::FixedScales rest{fixed.input_factors, has_row_scales ? row_scales.data() + shape.first_rows : nullptr};
  REQUIRE(ops::pack_rows(alone, second.data(), shape.second_rows, shape.first_rows, packed, rest));
  const Uploaded want = upload(packed, stream);

  const OnDevice<float> first_there(first), second_there(second), factors_there(factors), scales_there(row_scales);
  const float* factors_or_none = factored ? factors_there.data() : nullptr;
  in_both_orders([&] {
    Made got(format, out, shape.in);
    got.rule = rule;
    const float* scales = has_row_scales ? scales_there.data() : nullptr;
    CHECK(got.quantize_rows(first_there.data(), shape.first_rows, 0, factors_or_none, scales, stream));
    CHECK(got.quantize_rows(second_there.data(), shape.second_rows, shape.first_rows, factors_or_none,
                            has_row_scales ? scales + shape.first_rows : nullptr, stream));
    CHECK((read_bytes(got.quantized.data(), got.at.num_bytes(), stream) ==
           read_bytes(want.quantized.data(), got.at.num_bytes(), stream)));
    const std::int64_t scale_bytes = got.at.num_scales * got.at.rows * 4;
    CHECK((read_bytes(got.scales.data(), scale_bytes, stream) == read_bytes(want.scales.data(), scale_bytes, stream)));
  });

  // Dequantizes them again.
  std::vector<float> dequantized(static_cast<std::size_t>(out * shape.in));
  ops::unpack_rows(packed, 0, out, dequantized.data());
  const quant::FormatSpec& what = quant::spec(format);
  const std::int64_t run = what.scale_inputs == 0 ? shape.in : what.scale_inputs;
  const OnDevice<float> wide(dequantized.size());
  target::dequantize_weights({want.view, what.weights, run, word_order(format), wide.data(), true}, stream);
  const OnDevice<std::uint16_t> narrow(dequantized.size());
  target::dequantize_weights({want.view, what.weights, run, word_order(format), narrow.data(), false}, stream);
  stream.wait();
  CHECK(first_beyond(wide.read(), dequantized, 0, 0) == "");
  std::vector<std::uint16_t> rounded;
  for (const float value : dequantized) rounded.push_back(bf16_of(value));
  CHECK((narrow.read() == rounded));
}

}  // namespace

TEST_CASE("device quantizing: values and scales equal the CPU's bit for bit, in every format, and dequantize back") {
  if (!find_device()) return;
  const target::Stream stream;
  for (const Format format : kWeightFormats) {
    for (const WeightShape& shape : kShapes) {
      INFO(quant::name(format) << " [" << shape.first_rows << " + " << shape.second_rows << ", " << shape.in << "]");
      compare(format, shape, false, stream);
    }
  }
}

TEST_CASE("device quantizing: int4 scales of least squares are the CPU's") {
  if (!find_device()) return;
  const target::Stream stream;
  for (const Format format : kWeightFormats) {
    if (!quant::is_int4(format)) continue;
    for (const WeightShape& shape : kShapes) {
      INFO(quant::name(format) << " [" << shape.first_rows << " + " << shape.second_rows << ", " << shape.in << "]");
      compare(format, shape, false, stream, quant::ScaleRule::least_squares);
    }
  }
}

TEST_CASE("device quantizing: an int8 profile's factors and scales give the CPU's values") {
  if (!find_device()) return;
  const target::Stream stream;
  for (const Format format : {Format::int8, Format::bf16}) {
    for (const WeightShape& shape : kShapes) {
      INFO(quant::name(format) << " [" << shape.first_rows << " + " << shape.second_rows << ", " << shape.in << "]");
      compare(format, shape, true, stream);
    }
  }
}

TEST_CASE("device quantizing: a non-finite weight is detected anywhere") {
  if (!find_device()) return;
  const target::Stream stream;
  constexpr std::int64_t kRows = 9, kIn = 260;
  for (const Format format : kWeightFormats) {
    const Made to(format, kRows, kIn);
    for (const float broken : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::quiet_NaN()}) {
      for (const std::int64_t at : {std::int64_t{0}, std::int64_t{8 * kIn + 259}, std::int64_t{4 * kIn + 130}}) {
        std::vector<float> weights = normal_values(kRows * kIn, 1, 8);
        weights[static_cast<std::size_t>(at)] = broken;
        INFO(quant::name(format) << ", " << broken << " at " << at);
        CHECK_FALSE(to.quantize_rows(OnDevice<float>(weights).data(), kRows, 0, nullptr, nullptr, stream));
      }
    }
    CHECK(
        to.quantize_rows(OnDevice<float>(normal_values(kRows * kIn, 1, 8)).data(), kRows, 0, nullptr, nullptr, stream));
  }
}

TEST_CASE("device publish: tables are rounded to bf16, vectors divided or copied") {
  if (!find_device()) return;
  const target::Stream stream;
  for (const std::int64_t count : {std::int64_t{1}, std::int64_t{2049}, std::int64_t{5000}}) {
    const std::vector<float> values = odd_weights(1, count, 9), divisors = normal_values(count, 1, 10);
    const OnDevice<float> there(values), divisors_there(divisors), as_they_are(values.size()), divided(values.size());
    const OnDevice<std::uint16_t> rounded(values.size());
    const OnDevice<std::uint32_t> not_finite(1);
    target::round_table({there.data(), count, nullptr, rounded.data(), not_finite.data()}, stream);
    target::store_vector({there.data(), count, nullptr, as_they_are.data(), not_finite.data()}, stream);
    target::store_vector({there.data(), count, divisors_there.data(), divided.data(), not_finite.data()}, stream);
    stream.wait();
    CHECK(not_finite.read()[0] == 0);
    CHECK((as_they_are.read() == values));
    const std::vector<float> quotients = divided.read();
    const std::vector<std::uint16_t> quantized = rounded.read();
    for (std::size_t i = 0; i < values.size(); ++i) {
      REQUIRE(quantized[i] == base::to_bf16(values[i]).bits);
      REQUIRE(quotients[i] == values[i] / divisors[i]);
    }
    std::vector<float> broken = values;
    broken.back() = std::numeric_limits<float>::quiet_NaN();
    const OnDevice<float> broken_there(broken);
    target::store_vector({broken_there.data(), count, nullptr, as_they_are.data(), not_finite.data()}, stream);
    stream.wait();
    CHECK(not_finite.read()[0] == 1);
  }
}

TEST_CASE("device quantizing: quantized rows dequantize to their values") {
  if (!find_device()) return;
  const target::Stream stream;
  constexpr std::int64_t kRows = 4, kWidth = 257;
  const std::vector<float> x = normal_values(kRows * kWidth, 1, 11);
  const OnDevice<float> x_there(x);
  for (const Format format : kWeightFormats) {
    const QuantizedOnDevice quantized(format, kRows, kWidth);
    target::quantize_rows({x_there.data(), quantized.rows}, kRows, stream);
    const OnDevice<float> wide(x.size());
    target::dequantize_rows({quantized.rows, wide.data(), true}, kRows, stream);
    const OnDevice<std::uint16_t> narrow(x.size());
    target::dequantize_rows({quantized.rows, narrow.data(), false}, kRows, stream);
    stream.wait();
    INFO(quant::name(format));
    const std::vector<float> want = quantized.dequantized();
    CHECK(first_beyond(wide.read(), want, 0, 0) == "");
    std::vector<std::uint16_t> rounded;
    for (const float value : want) rounded.push_back(bf16_of(value));
    CHECK((narrow.read() == rounded));
  }
}
