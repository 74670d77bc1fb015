// Tests rotated rows and weights on the device (quant/rotation.h) against the CPU's, bit for bit.
#include <algorithm>

#include "cuda/quantize/quantize_weights.h"
#include "cuda/quantize/rows.h"
#include "device.h"
#include "ops/linear.h"
#include "ops/transformer.h"

namespace {

using namespace qrl;
using namespace qrl::cuda;
using namespace qrl::cuda::test;
using quant::Format;

constexpr std::int64_t kRotatedRows = 5;
constexpr Format kInputFormats[] = {Format::int4, Format::int8, Format::fp8_channel, Format::fp8_block128};

/// A width may end within a warp's 128 numbers. The largest has rows of 1,024 threads.
constexpr std::pair<std::int64_t, quant::Rotation> kRotatedWidths[] = {
    {32, {32}}, {96, {32}}, {576, {64}}, {640, {128}}, {1088, {64}}, {4096, {128}}, {4224, {32}}};

/// Returns ordinary rows, one of zeros, one with an outlier.
std::vector<float> rotated_inputs(std::int64_t width) {
  std::vector<float> x = normal_values(kRotatedRows * width, 1, static_cast<std::uint64_t>(width));
  std::fill_n(x.data() + width, width, 0.0F);
  x[static_cast<std::size_t>(2 * width + width / 2)] = 1000;
  return x;
}

std::vector<float> dequantized_rotated(const ops::Activations& rows) {
  std::vector<float> values(static_cast<std::size_t>(kRotatedRows * rows.width));
  for (std::int64_t row = 0; row < kRotatedRows; ++row)
    ops::dequantize_row(rows, row, values.data() + row * rows.width);
  return values;
}

QuantizedOnDevice rows_there(Format format, std::int64_t width, const quant::Rotation& rotation) {
  QuantizedOnDevice rows(format, kRotatedRows, width);
  rows.rows.rotation = target::row_rotation(rotation);
  return rows;
}

}  // namespace

TEST_CASE("device rows with a rotation: the CPU's bits, in every format and block, an adapter's input is not rotated") {
  if (!find_device()) return;
  const target::Stream stream;
  base::Team alone = base::Team::solo();
  for (const Format format : kInputFormats) {
    for (const auto& [width, rotation] : kRotatedWidths) {
      CAPTURE(quant::name(format), width, rotation.block);
      const std::vector<float> x = rotated_inputs(width);
      ops::Activations want(format, kRotatedRows, width, rotation);
      ops::quantize(alone, x.data(), {0, kRotatedRows}, want);
      const OnDevice<float> there(x);
      in_both_orders([&] {
        const QuantizedOnDevice got = rows_there(format, width, rotation);
        const OnDevice<std::uint16_t> wide(static_cast<std::size_t>(kRotatedRows * got.stride));
        target::quantize_rows({there.data(), got.rows, wide.data()}, kRotatedRows, stream);
        const OnDevice<float> back(static_cast<std::size_t>(kRotatedRows * width));
        target::dequantize_rows({got.rows, back.data(), true}, kRotatedRows, stream);
        stream.wait();
        CHECK(first_beyond(got.dequantized(), dequantized_rotated(want), 0, 0) == "");
        std::vector<float> rotated_back = dequantized_rotated(want);
        quant::rotate(rotation, rotated_back);
        CHECK(first_beyond(back.read(), rotated_back, 0, 0) == "");
        const std::vector<std::uint16_t> unrotated = wide.read();
        for (std::size_t i = 0; i < x.size(); ++i) {
          const auto at = static_cast<std::int64_t>(i);
          REQUIRE(unrotated[static_cast<std::size_t>(at / width * got.stride + at % width)] == bf16_of(x[i]));
        }
      });
    }
  }
}

TEST_CASE("device norm and swiglu with a rotation: the bits of rotating their rows") {
  if (!find_device()) return;
  const target::Stream stream;
  for (const Format format : kInputFormats) {
    for (const auto& [width, rotation] : kRotatedWidths) {
      CAPTURE(quant::name(format), width, rotation.block);
      const OnDevice<float> x(normal_values(kRotatedRows * width, 2, 1)), gain(normal_values(width, 1, 2));
      const std::int64_t stride = round_up(2 * width, kOutputTile);
      const OnDevice<float> halves(normal_values(kRotatedRows * stride, 2, 3));
      const OnDevice<float> plain(static_cast<std::size_t>(kRotatedRows * width));
      const auto check = [&](const auto& run) {
        // The same values unrotated, as fp32: from bf16's copy they would be rounded.
        const QuantizedOnDevice want = rows_there(format, width, rotation), got = rows_there(format, width, rotation);
        run(got);
        target::quantize_rows({plain.data(), want.rows}, kRotatedRows, stream);
        stream.wait();
        return std::pair(got.dequantized(), want.dequantized());
      };
      // A norm of rows whose mean square is 1 and whose gain is 1 gives the rows, so that they are known in fp32.
      std::vector<float> signs(static_cast<std::size_t>(kRotatedRows * width));
      for (std::size_t i = 0; i < signs.size(); ++i) signs[i] = (i * 7919) % 13 < 6 ? -1.0F : 1.0F;
      const OnDevice<float> signs_there(signs);
      const std::vector<float> gains = gain.read();
      std::vector<float> normed(signs);
      for (std::size_t i = 0; i < normed.size(); ++i) normed[i] *= gains[i % static_cast<std::size_t>(width)];
      target::copy_to_device(plain.data(), normed.data(), normed.size() * sizeof(float), stream);
      const auto [norm_got, norm_want] = check([&](const QuantizedOnDevice& rows) {
        target::norm_quantize({signs_there.data(), {nullptr, 0, false}, nullptr, gain.data(), nullptr, 0.0F, rows.rows},
                              kRotatedRows, stream);
      });
      CHECK(first_beyond(norm_got, norm_want, 0, 0) == "");
      // SwiGLU's gate of 0 gives 0, and a large one gives gate · up.
      std::vector<float> gate_up = halves.read(), product(static_cast<std::size_t>(kRotatedRows * width));
      for (std::int64_t row = 0; row < kRotatedRows; ++row) {
        for (std::int64_t i = 0; i < width; ++i) {
          float& gate = gate_up[static_cast<std::size_t>(row * stride + i)];
          gate = i % 3 == 0 ? 0.0F : 256.0F;
          product[static_cast<std::size_t>(row * width + i)] =
              gate * gate_up[static_cast<std::size_t>(row * stride + width + i)];
        }
      }
      target::copy_to_device(halves.data(), gate_up.data(), gate_up.size() * sizeof(float), stream);
      target::copy_to_device(plain.data(), product.data(), product.size() * sizeof(float), stream);
      const auto [swiglu_got, swiglu_want] = check([&](const QuantizedOnDevice& rows) {
        target::swiglu_quantize({{halves.data(), stride, true}, rows.rows}, kRotatedRows, stream);
      });
      CHECK(first_beyond(swiglu_got, swiglu_want, 0, 0) == "");
    }
  }
}

TEST_CASE("device publish with a rotation: rotated rows are the CPU's, and dequantized ones are rotated back") {
  if (!find_device()) return;
  const target::Stream stream;
  base::Team alone = base::Team::solo();
  for (const Format format :
       {Format::int8, Format::fp8_channel, Format::fp8_block128, Format::int4, Format::int4_int8_g64}) {
    for (const auto& [width, rotation] : kRotatedWidths) {
      if (width > 1088) continue;
      CAPTURE(quant::name(format), width, rotation.block);
      constexpr std::int64_t kOut = 70;
      const std::vector<float> weights = normal_values(kOut * width, 0.3F, 3), factors = normal_values(width, 1, 4);
      std::vector<float> want = weights;
      for (std::size_t i = 0; i < want.size(); ++i) want[i] *= factors[i % static_cast<std::size_t>(width)];
      quant::rotate(rotation, want);
      const OnDevice<float> weights_there(weights), factors_there(factors), got(weights.size());
      target::rotate_weights(
          {weights_there.data(), kOut, width, factors_there.data(), target::row_rotation(rotation), got.data()},
          stream);
      stream.wait();
      CHECK(first_beyond(got.read(), want, 0, 0) == "");

      ops::PackedLinear packed = ops::make_packed_linear(format, kOut, width, false);
      packed.rotation = rotation;
      REQUIRE(ops::pack_rows(alone, weights.data(), kOut, 0, packed));
      Uploaded uploaded = upload(packed, stream);
      std::vector<float> back(weights.size());
      ops::unpack_rows(packed, 0, kOut, back.data());
      quant::rotate(rotation, back);
      const quant::FormatSpec& what = quant::spec(format);
      const OnDevice<float> there(weights.size());
      target::dequantize_weights({uploaded.view, what.weights, what.scale_inputs == 0 ? width : what.scale_inputs,
                                  word_order(format), there.data(), true, target::row_rotation(rotation)},
                                 stream);
      stream.wait();
      CHECK(first_beyond(there.read(), back, 0, 0) == "");
    }
  }
}
