// Matrix products in every format against the CPU's, on the same codes: by the plain kernel and by what is chosen for
// the device.
#include "device.h"
#include "ops/linear.h"
#include "weights.h"

namespace {

using namespace qrl;
using namespace qrl::cuda;
using namespace qrl::cuda::test;
using quant::Format;

constexpr Format kFormats[] = {Format::bf16,         Format::int8, Format::fp8_tensor, Format::fp8_channel,
                               Format::fp8_block128, Format::int4, Format::int4_int8,  Format::int4_fp8};

struct Shape {
  std::int64_t rows, in, out;
};
constexpr Shape kShapes[] = {{1, 7, 3}, {5, 96, 130}, {33, 257, 64}, {70, 384, 65}};

/// y [rows, out] of the CPU, which reads the same codes.
std::vector<float> on_cpu(const std::vector<float>& x, const ops::PackedLinear& w, std::int64_t rows) {
  ops::Activations codes(w.format, rows, w.in);
  base::Team alone = base::Team::solo();
  ops::encode(alone, x.data(), {0, rows}, codes);
  std::vector<float> y(static_cast<std::size_t>(rows * w.out));
  ops::linear(alone, codes, w, {0, rows}, false, y.data());
  return y;
}

struct Uploaded {
  target::Memory panels, codes, scales;
  target::DeviceMatrix view;
};

/// As Weights does it, but kept apart so that one matrix can be looked at.
Uploaded upload(const ops::PackedLinear& w, const target::Stream& stream) {
  Uploaded to;
  const MatrixLayout at = matrix_layout(w.format, w.out, w.in);
  to.panels = target::Memory(w.panels.num_bytes());
  to.codes = target::Memory(static_cast<std::size_t>(at.num_bytes()));
  target::copy_to_device(to.panels.data(), w.panels.view().data, w.panels.num_bytes(), stream);
  target::repack({to.panels.as<std::uint32_t>(), word_order(w.format), at, to.codes.as<std::uint8_t>()}, stream);
  std::vector<float> scales;
  if (at.num_scales > 0) {
    const std::int64_t count = at.num_scales * at.rows;
    REQUIRE(w.scales.shape().numel() == count);
    for (std::int64_t i = 0; i < count; ++i)
      scales.push_back(w.scales.view().dtype == base::DType::f32 ? w.scales.as<float>()[i]
                                                                 : to_float(w.scales.as<base::bf16>()[i]));
    to.scales = target::Memory(scales.size() * sizeof(float));
    target::copy_to_device(to.scales.data(), scales.data(), scales.size() * sizeof(float), stream);
  }
  stream.wait();
  to.view = {w.format, at, to.codes.as<std::uint8_t>(), at.num_scales > 0 ? to.scales.as<float>() : nullptr};
  return to;
}

ops::PackedLinear packed(Format format, const Shape& shape) {
  const std::vector<float> weight = normal_values(shape.out * shape.in, 0.3F, 31);
  ops::PackedLinear w = ops::make_packed_linear(format, shape.out, shape.in, false);
  base::Team alone = base::Team::solo();
  REQUIRE(ops::pack_rows(alone, weight.data(), shape.out, 0, w));
  return w;
}

}  // namespace

TEST_CASE("repacked matrices hold the host's codes in order") {
  if (!find_device()) return;
  const target::Stream stream;
  for (const Format format : kFormats) {
    const Shape shape{1, 257, 130};
    const ops::PackedLinear w = packed(format, shape);
    std::vector<float> want(static_cast<std::size_t>(shape.out * shape.in));
    ops::unpack_rows(w, 0, shape.out, want.data());
    const Uploaded there = upload(w, stream);
    std::vector<std::uint8_t> bytes(there.codes.num_bytes());
    target::copy_to_host(bytes.data(), there.codes.data(), bytes.size(), stream);
    std::vector<float> scales(there.scales.num_bytes() / sizeof(float));
    target::copy_to_host(scales.data(), there.scales.data(), there.scales.num_bytes(), stream);
    stream.wait();
    const MatrixLayout& at = there.view.at;
    const quant::FormatSpec& what = quant::spec(format);
    std::vector<float> got;
    for (std::int64_t row = 0; row < shape.out; ++row) {
      const std::uint8_t* codes = bytes.data() + row * at.row_bytes;
      for (std::int64_t i = 0; i < shape.in; ++i) {
        float value = 0;
        if (what.weights == quant::Code::bf16)
          value = float_of_bf16(static_cast<std::uint16_t>(codes[2 * i] | codes[2 * i + 1] << 8));
        else if (what.weights == quant::Code::int8) value = static_cast<std::int8_t>(codes[i]);
        else if (what.weights == quant::Code::fp8_e4m3) value = float_of_fp8(codes[i]);
        else value = int4_at(codes, i);
        const std::int64_t run = at.num_scales <= 1 ? 0 : i / what.scale_inputs;
        if (!scales.empty()) value *= scales[static_cast<std::size_t>(run * at.rows + row)];
        got.push_back(value);
      }
    }
    INFO(quant::name(format));
    CHECK(first_beyond(got, want, 0, 0) == "");
  }
}

TEST_CASE(
    "products are the CPU's in every format: fp32 to 2e-5 of the largest, int8 to a few roundings, bf16 to 2^-8") {
  const std::optional<target::DeviceFacts> device = find_device();
  if (!device) return;
  const target::Stream stream;
  const std::unique_ptr<target::Products> chosen = target::make_products(*device);
  for (const Format format : kFormats) {
    for (const Shape& shape : kShapes) {
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
        const Encoded codes(format, shape.rows, shape.in);
        target::encode({x_there.data(), codes.rows}, shape.rows, stream);
        const OnDevice<float> y(count);
        target::plain_product({codes.rows, shape.rows, there.view, y.data(), stride, true}, stream);
        stream.wait();
        CHECK(first_beyond(of_rows(y.read(), [](float v) { return v; }), want, 2e-5 * largest, 2e-6) == "");
        const OnDevice<std::uint16_t> y_bf16(count);
        chosen->multiply({codes.rows, shape.rows, there.view, y_bf16.data(), stride, false}, stream);
        stream.wait();
        CHECK(first_beyond(of_rows(y_bf16.read(), float_of_bf16), want, 2e-5 * largest, 0x1p-8) == "");
      });
    }
  }
}
