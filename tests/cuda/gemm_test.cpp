// Tests GEMMs in every format against the CPU's, on the same quantized values, by the plain kernel and by those chosen
// for the device.
#include "cuda/bench/speed.h"
#include "cuda/engine/weights.h"
#include "gemm_fixtures.h"

namespace {

using namespace qrl;
using namespace qrl::cuda;
using namespace qrl::cuda::test;

constexpr Shape kGemmShapes[] = {{1, 7, 3}, {5, 96, 130}, {33, 257, 64}, {70, 384, 65}};

/// Returns the CPU's y [rows, out] from the same quantized values.
std::vector<float> on_cpu(const std::vector<float>& x, const ops::PackedLinear& w, std::int64_t rows) {
  ops::Activations quantized(w.format, rows, w.in);
  base::Team alone = base::Team::solo();
  ops::quantize(alone, x.data(), {0, rows}, quantized);
  std::vector<float> y(static_cast<std::size_t>(rows * w.out));
  ops::linear(alone, quantized, w, {0, rows}, false, y.data());
  return y;
}

int int4_in_row(Format format, const std::uint8_t* quantized, std::int64_t i) {
  std::uint32_t word = 0;
  std::memcpy(&word, quantized + i / 8 * 4, sizeof word);
  return int4_at(word_order(format), word, static_cast<int>(i % 8));
}

}  // namespace

TEST_CASE("repacked matrices: hold the host's quantized values in order") {
  if (!find_device()) return;
  const target::Stream stream;
  for (const Format format : kWeightFormats) {
    const Shape shape{1, 257, 130};
    const ops::PackedLinear w = packed(format, shape);
    std::vector<float> want(static_cast<std::size_t>(shape.out * shape.in));
    ops::unpack_rows(w, 0, shape.out, want.data());
    const Uploaded there = upload(w, stream);
    std::vector<std::uint8_t> bytes(there.quantized.num_bytes());
    target::copy_to_host(bytes.data(), there.quantized.data(), bytes.size(), stream);
    std::vector<float> scales(there.scales.num_bytes() / sizeof(float));
    target::copy_to_host(scales.data(), there.scales.data(), there.scales.num_bytes(), stream);
    stream.wait();
    const MatrixLayout& at = there.view.at;
    const quant::FormatSpec& what = quant::spec(format);
    std::vector<float> got;
    for (std::int64_t row = 0; row < shape.out; ++row) {
      const std::uint8_t* quantized = bytes.data() + row * at.row_bytes;
      for (std::int64_t i = 0; i < shape.in; ++i) {
        float value = 0;
        if (what.weights == quant::Element::bf16)
          value = float_of_bf16(static_cast<std::uint16_t>(quantized[2 * i] | quantized[2 * i + 1] << 8));
        else if (what.weights == quant::Element::int8) value = static_cast<std::int8_t>(quantized[i]);
        else if (what.weights == quant::Element::fp8_e4m3) value = float_of_fp8(quantized[i]);
        else value = static_cast<float>(int4_in_row(format, quantized, i));
        const std::int64_t run = at.num_scales <= 1 ? 0 : i / what.scale_inputs;
        if (!scales.empty()) value *= scales[static_cast<std::size_t>(run * at.rows + row)];
        got.push_back(value);
      }
    }
    INFO(quant::name(format));
    CHECK(first_beyond(got, want, 0, 0) == "");
  }
}

TEST_CASE("GEMMs: equal the CPU's in every format, fp32 to 2e-5, int8 to a few roundings, bf16 to 2^-8") {
  const std::optional<target::DeviceFacts> device = find_device();
  if (!device) return;
  const target::Stream stream;
  const std::unique_ptr<target::Gemms> chosen = target::make_gemms(*device);
  for (const Format format : kWeightFormats) {
    for (const Shape& shape : kGemmShapes) {
      const ops::PackedLinear w = packed(format, shape);
      const std::vector<float> x = normal_values(shape.rows * shape.in, 1, 41);
      const std::vector<float> want = on_cpu(x, w, shape.rows);
      float largest = 0;
      for (const float value : want) largest = std::max(largest, std::fabs(value));
      const Uploaded there = upload(w, stream);
      const OnDevice<float> x_there(x);
      const std::int64_t stride = there.view.at.rows;
      const auto count = static_cast<std::size_t>(shape.rows * stride);
      const auto of_rows = [&](const auto& y, const auto& value_of) {
        std::vector<float> values;
        for (std::int64_t row = 0; row < shape.rows; ++row) {
          for (std::int64_t n = 0; n < shape.out; ++n)
            values.push_back(value_of(y[static_cast<std::size_t>(row * stride + n)]));
        }
        return values;
      };
      INFO(quant::name(format) << ", " << shape.rows << " rows, " << shape.in << " to " << shape.out);
      in_both_orders([&] {
        const QuantizedOnDevice quantized(format, shape.rows, shape.in);
        target::quantize_rows({x_there.data(), quantized.rows}, shape.rows, stream);
        const OnDevice<float> y(count);
        target::plain_gemm({quantized.rows, shape.rows, there.view, y.data(), stride, true}, stream);
        stream.wait();
        CHECK(first_beyond(of_rows(y.read(), [](float v) { return v; }), want, 2e-5 * largest, 2e-6) == "");
        const OnDevice<std::uint16_t> y_bf16(count);
        chosen->multiply({quantized.rows, shape.rows, there.view, y_bf16.data(), stride, false}, stream);
        stream.wait();
        CHECK(first_beyond(of_rows(y_bf16.read(), float_of_bf16), want,
                           gemm_error(format, shape.rows, shape.in, want, 2e-5 * largest), 0x1p-8) == "");
        if (format != Format::int8) return;
        // Like the logits of an int8 lm_head: sums are exact, so every kernel gives the same bits.
        const OnDevice<float> y_f32(count);
        chosen->multiply({quantized.rows, shape.rows, there.view, y_f32.data(), stride, true}, stream);
        stream.wait();
        const auto as_is = [](float v) { return v; };
        CHECK(of_rows(y_f32.read(), as_is) == of_rows(y.read(), as_is));
      });
    }
  }
}

TEST_CASE("GEMMs: several tiles of rows equal the plain GEMM") {
  const std::optional<target::DeviceFacts> device = find_device();
  if (!device) return;
  const std::unique_ptr<target::Gemms> gemms = target::make_gemms(*device);
  // Two and three tiles of 64 rows; tiles of 128 rows where their number equals the multiprocessors.
  std::vector<Shape> shapes = {{100, 600, 256}, {150, 600, 256}};
#if !defined(QRL_CUDA_EMULATED)
  shapes.push_back({200, 384, 8600});
#endif
  for (const Shape& shape : shapes) {
    for (const Format format : {Format::int8, Format::fp8_tensor, Format::fp8_channel}) {
      const GemmCase gemm(format, shape, normal_values(shape.rows * shape.in, 1, 49));
      const std::vector<float> want = gemm.plain();
      const std::int64_t stride = gemm.w.view.at.rows;
      const OnDevice<std::uint16_t> y(
          std::vector<std::uint16_t>(static_cast<std::size_t>(shape.rows * stride), 0x7fc0));
      gemms->multiply({gemm.quantized.rows, shape.rows, gemm.w.view, y.data(), stride, false}, gemm.stream);
      gemm.stream.wait();
      const std::vector<std::uint16_t> all = y.read();
      std::vector<float> got;
      for (std::int64_t row = 0; row < shape.rows; ++row) {
        for (std::int64_t n = 0; n < shape.out; ++n)
          got.push_back(float_of_bf16(all[static_cast<std::size_t>(row * stride + n)]));
      }
      INFO(quant::name(format) << ", " << shape.rows << " rows, " << shape.out << " outputs; " << gemms->describe());
      CHECK(first_beyond(got, want, gemm_error(format, shape.rows, shape.in, want, 0), 0x1p-8) == "");
    }
  }
}

TEST_CASE("streamed GEMMs: exact to 1e-6 of the terms' sizes for any number of rows, int8 bit for bit") {
  const std::optional<target::DeviceFacts> device = find_device();
  if (!device) return;
  const DeviceLimits limits{static_cast<std::int64_t>(device->shared_bytes), 132};
  for (const Format format : kStreamed) {
    for (const std::int64_t rows : {1, 2, 7, 16, 17, 33, 64, 65, 257}) {
      const Shape shape{rows, rows == 7 ? 7 : 385, rows > 64 ? 65 : 130};
      const GemmCase gemm(format, shape, normal_values(rows * shape.in, 1, 43));
      const StreamPlan plan = plan_stream(format, gemm.w.view.at, rows, limits);
      INFO(quant::name(format) << ", " << rows << " rows, " << shape.in << " to " << shape.out);
      const std::vector<float> y = gemm.streamed(plan);
      CHECK(gemm.first_beyond_exact(y, kSumShare) == "");
      if (format == Format::int8) CHECK(y == gemm.plain());
    }
  }
}

TEST_CASE("streamed GEMMs: the same bits in every plan and beside any other rows") {
  if (!find_device()) return;
  const Shape shape{19, 1600, 70};  // thirteen chunks in three splits, the last of five
  for (const Format format : kStreamed) {
    const std::vector<float> x = normal_values(shape.rows * shape.in, 1, 47);
    const GemmCase gemm(format, shape, x);
    REQUIRE(num_splits(gemm.w.view.at) == 3);
    const std::vector<float> want = gemm.streamed({kStreamTiles[0], false});
    CHECK(gemm.first_beyond_exact(want, kSumShare) == "");
    for (const StreamTile& tile : kStreamTiles) {
      if (!has_room(tile, format, {.shared_bytes = 1 << 20})) continue;  // a tile that the format lacks
      for (const bool apart : {false, true}) {
        INFO(quant::name(format) << ", " << tile.rows << " rows a tile" << (apart ? ", splits apart" : ""));
        if (apart) in_both_orders([&] { CHECK(gemm.streamed({tile, apart}) == want); });
        else CHECK(gemm.streamed({tile, apart}) == want);
      }
    }
    const std::int64_t row = 17;
    const GemmCase alone(format, {1, shape.in, shape.out},
                         {x.begin() + row * shape.in, x.begin() + (row + 1) * shape.in});
    CHECK(alone.streamed({kStreamTiles[0], true}) ==
          std::vector<float>(want.begin() + row * shape.out, want.begin() + (row + 1) * shape.out));
  }
}

TEST_CASE("streamed GEMMs: a row with NaN or infinity becomes NaN, other rows are unchanged") {
  if (!find_device()) return;
  const Shape shape{3, 300, 64};
  for (const Format format : kStreamed) {
    std::vector<float> x = normal_values(shape.rows * shape.in, 1, 53);
    const std::vector<float> want = GemmCase(format, shape, x).streamed({kStreamTiles[0], false});
    x[5] = std::nanf("");
    x[static_cast<std::size_t>(2 * shape.in + 290)] = INFINITY;
    const std::vector<float> got = GemmCase(format, shape, x).streamed({kStreamTiles[0], false});
    INFO(quant::name(format));
    for (std::int64_t i = 0; i < shape.rows * shape.out; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (i / shape.out == 1) CHECK(got[at] == want[at]);
      else CHECK_FALSE(std::isfinite(got[at]));
    }
  }
}

TEST_CASE("streamed GEMMs: dequantize every e4m3 value exactly, in weights and activations") {
  if (!find_device()) return;
  const target::Stream stream;
  const std::int64_t width = 256;
  const MatrixLayout at = matrix_layout(Format::fp8_channel, 1, width);
  const target::Memory partials(static_cast<std::size_t>(kStreamPartialBytes)),
      counters = target::Memory::zeroed(static_cast<std::size_t>(kStreamCounters) * 4);
  const OnDevice<float> ones(std::vector<float>(256, 1.0F));
  std::vector<std::uint8_t> every, unit(static_cast<std::size_t>(width * width), 0);
  for (int code = 0; code < 256; ++code) {
    every.push_back((code & 0x7f) == 0x7f ? 0 : static_cast<std::uint8_t>(code));
    unit[static_cast<std::size_t>(code * width + code)] = 0x38;  // 1
  }
  const auto multiply = [&](const std::vector<std::uint8_t>& x, std::int64_t rows, const std::vector<std::uint8_t>& w) {
    std::vector<std::uint8_t> padded(
        static_cast<std::size_t>(round_up(static_cast<std::int64_t>(w.size()) / width, 64) * width));
    std::copy(w.begin(), w.end(), padded.begin());
    MatrixLayout of_w = at;
    of_w.rows = static_cast<std::int64_t>(padded.size()) / width;
    const OnDevice<std::uint8_t> x_there(x), w_there(padded);
    const OnDevice<float> y(static_cast<std::size_t>(rows * of_w.rows));
    target::streamed_gemm({{quant::Element::fp8_e4m3, x_there.data(), ones.data(), width, width, width},
                           rows,
                           {Format::fp8_channel, of_w, w_there.data(), ones.data()},
                           y.data(),
                           of_w.rows,
                           true},
                          {kStreamTiles[3], false}, {partials.as<std::uint32_t>(), counters.as<std::uint32_t>()},
                          stream);
    stream.wait();
    return y.read();
  };
  const std::vector<float> of_w = multiply(unit, width, every), of_x = multiply(every, 1, unit);
  for (std::int64_t i = 0; i < width; ++i) {
    const float want = float_of_fp8(every[static_cast<std::size_t>(i)]);
    CHECK(of_w[static_cast<std::size_t>(i * 64)] == want);
    CHECK(of_x[static_cast<std::size_t>(i)] == want);
  }
}

TEST_CASE("row-invariant GEMMs: a row has the same bits beside any other rows, in every kernel") {
  const std::optional<target::DeviceFacts> device = find_device();
  if (!device) return;
  const target::Stream stream;
  const std::unique_ptr<target::Gemms> gemms = target::make_gemms(*device, true);
  for (const Format format : kWeightFormats) {
    for (const bool is_f32 : {false, true}) {
      const Shape shape{70, 900, 130};
      const std::vector<float> x = normal_values(shape.rows * shape.in, 1, 59);
      const GemmCase all(format, shape, x);
      const auto bits = [&](std::int64_t first, std::int64_t count) {
        const std::int64_t stride = all.w.view.at.rows;
        target::QuantizedRows rows = all.quantized.rows;
        const int bytes = rows.element == quant::Element::bf16 ? 2 : 1;
        rows.quantized = static_cast<std::uint8_t*>(rows.quantized) + first * rows.stride * bytes;
        if (rows.scales != nullptr) rows.scales += first * rows.num_scales();
        const OnDevice<std::uint32_t> y(static_cast<std::size_t>(count * stride));
        gemms->multiply({rows, count, all.w.view, y.data(), stride, is_f32}, stream);
        stream.wait();
        std::vector<std::uint32_t> words = y.read();
        words.resize(static_cast<std::size_t>(count * stride * (is_f32 ? 2 : 1) / 2));
        return words;
      };
      const std::vector<std::uint32_t> want = bits(0, shape.rows);
      const std::size_t words_a_row = want.size() / static_cast<std::size_t>(shape.rows);
      for (const std::int64_t count : {1, 8, 15, 16, 17, 33, 64, 65}) {
        const std::int64_t first = shape.rows - count;
        INFO(quant::name(format) << ", " << count << " rows" << (is_f32 ? ", fp32" : ""));
        CHECK((bits(first, count) ==
               std::vector<std::uint32_t>(want.begin() + first * static_cast<std::int64_t>(words_a_row), want.end())));
      }
    }
  }
}

TEST_CASE("GEMM benchmark: reports a positive time for each number of rows") {
  if (!find_device()) return;
  for (const Format format : {Format::int4, Format::fp8_block128}) {
    const GemmSpeeds speeds = target::measure_gemms({format, 100, 200, {1, 2}, 1 << 17});
    INFO(quant::name(format));
    CHECK(speeds.read_bytes_per_s > 0);
    REQUIRE(speeds.gemm_s.size() == 2);
    CHECK((speeds.gemm_s[0] > 0 && speeds.gemm_s[1] > 0));
  }
}
