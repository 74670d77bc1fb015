// Tests GEMMs of many rows with matrices that are dequantized to bf16 once; the plain GEMM replaces cuBLASLt.
#include "cuda/gemm/dequantized_gemms.h"

#include "cuda/quantize/rows.h"
#include "gemm_fixtures.h"
#include "support/models.h"

namespace {

using namespace qrl;
using namespace qrl::cuda;
using namespace qrl::cuda::test;

}  // namespace

TEST_CASE("dequantized GEMMs: int4 and fp8_block128 operands of many rows are rounded to bf16, with no larger error") {
  const std::optional<target::DeviceFacts> device = find_device();
  if (!device) return;
  const std::unique_ptr<target::Gemms> gemms = target::make_gemms(*device), bitwise = target::make_gemms(*device, true);
  for (const Format format : {Format::int4, Format::int4_g32, Format::fp8_block128}) {
    const std::int64_t least = dequantized_rows(format);
    const Shape shape{least, 300, 65}, fewer{format == Format::fp8_block128 ? 128 : 80, 300, 65};
    CHECK(padded_rows(fewer.rows + 1) == least);
    const GemmCase gemm(format, shape, normal_values(shape.rows * shape.in, 1, 61)),
        of_fewer(format, fewer, normal_values(fewer.rows * fewer.in, 1, 61));
    const auto by = [](target::Gemms& made, const GemmCase& of) {
      return of.run([&](const target::GemmTask& task) { made.multiply(task, of.stream); });
    };
    INFO(quant::name(format));
    const std::vector<float> y = by(*gemms, gemm);
    // Weights are rounded by 2^-9 each, and so are fp8_block128's activations.
    CHECK(gemm.first_beyond_exact(y, kSumShare + (format == Format::fp8_block128 ? 0x1p-8 + 0x1p-18 : 0x1p-9)) == "");
    CHECK(gemm.first_beyond_exact(y, kSumShare) != "");
    CHECK(of_fewer.first_beyond_exact(by(*gemms, of_fewer), kSumShare) == "");
    CHECK(gemm.first_beyond_exact(by(*bitwise, gemm), kSumShare) == "");
    for (const std::int64_t rows : {least - 1, least}) {
      CHECK((choose_gemm(format, rows, false, true) == GemmKernel::dequantized) == (rows == least));
      CHECK(choose_gemm(format, rows, false, true, true) == GemmKernel::streamed);
    }
    // Activations in several parts.
    target::DequantizedGemms in_parts(100), whole;
    const auto dequantized = [&](target::DequantizedGemms& made) {
      return gemm.run([&](const target::GemmTask& task) {
        made.multiply(
            task, [&](const target::GemmTask& bf16) { target::plain_gemm(bf16, gemm.stream); }, gemm.stream);
      });
    };
    CHECK(dequantized(in_parts) == dequantized(whole));
  }
  for (const Format format : {Format::int4_int8, Format::int4_fp8, Format::fp8_channel, Format::int8, Format::bf16})
    CHECK(choose_gemm(format, 4096, false, true) != GemmKernel::dequantized);
}

TEST_CASE("dequantized GEMMs: operand memory does not move while recorded ticks use it") {
  if (!find_device()) return;
  const auto of_size = [](std::int64_t size) {
    return target::DeviceMatrix{Format::int4, matrix_layout(Format::int4, size, size), nullptr, nullptr};
  };
  target::DequantizedGemms gemms;
  gemms.set_fixed(true);
  gemms.reserve(of_size(128));  // allowed: no recorded tick contains memory that does not exist yet
  CHECK_NOTHROW(gemms.reserve(of_size(64)));
  CHECK_THROWS_WITH(gemms.reserve(of_size(256)), Catch::Matchers::Contains("reserved at upload"));
  gemms.set_fixed(false);
  gemms.reserve(of_size(256));
}

TEST_CASE("dequantizing: matrices and rows become the nearest bf16, with zeros behind them") {
  if (!find_device()) return;
  for (const Format format : {Format::int4, Format::fp8_block128}) {
    const GemmCase gemm(format, {37, 1157, 70}, normal_values(37 * 1157, 1, 67));
    const MatrixLayout& at = gemm.w.view.at;
    const OnDevice<std::uint16_t> matrix(
        std::vector<std::uint16_t>(static_cast<std::size_t>(at.rows * at.width), 0x5a5a));
    target::dequantize_matrix(gemm.w.view, matrix.data(), gemm.stream);
    gemm.stream.wait();
    std::vector<float> weight(static_cast<std::size_t>(at.out * at.in));
    ops::unpack_rows(gemm.host, 0, at.out, weight.data());
    const auto check = [&](const std::vector<std::uint16_t>& got, const std::vector<float>& want, std::int64_t rows,
                           std::int64_t width, std::int64_t stride) {
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t i = 0; i < stride; ++i) {
          const float value = i < width ? want[static_cast<std::size_t>(row * width + i)] : 0.0F;
          if (float_of_bf16(got[static_cast<std::size_t>(row * stride + i)]) != float_of_bf16(bf16_of(value)))
            FAIL(quant::name(format) << " [" << row << ", " << i << "], not " << value);
        }
      }
    };
    check(matrix.read(), weight, at.out, at.in, at.width);
    if (format == Format::int4) continue;
    const target::QuantizedRows& x = gemm.quantized.rows;
    const OnDevice<std::uint16_t> rows(std::vector<std::uint16_t>(static_cast<std::size_t>(37 * x.stride), 0x5a5a));
    target::dequantize_rows(x, 37, rows.data(), gemm.stream);
    gemm.stream.wait();
    check(rows.read(), gemm.quantized.dequantized(), 37, x.width, x.stride);
  }
}

TEST_CASE("dequantized GEMMs: operand memory equals the estimate, and is zero without dequantizing") {
  if (!find_device()) return;
  const model::ModelConfig config = qrl::test::model_config(model::Family::qwen3, {0, 200, 1, 3, 1, 40, 300});
  for (const Format format : kWeightFormats) {
    target::DequantizedGemms gemms;
    const bool is_w4a16 = quant::is_int4(format) && quant::spec(format).activations == quant::Element::bf16;
    const bool dequantizes = is_w4a16 || format == Format::fp8_block128;
    // The matrices of a layer.
    for (const auto& [out, in] :
         {std::pair<std::int64_t, std::int64_t>{200, 200}, {200, 120}, {600, 200}, {200, 300}}) {
      if (dequantizes) gemms.reserve({format, matrix_layout(format, out, in), nullptr, nullptr});
    }
    INFO(quant::name(format));
    CHECK((gemms.num_bytes() > 0) == dequantizes);
    for (const std::int64_t rows : {512, 160, 129, 128, 96, 81, 80, 1}) {  // ticks are padded to 160 and to 96
      const bool is_many = rows > (is_w4a16 ? 80 : 128);
      CHECK(dequantized_bytes(format, config, rows, false) == (is_many ? gemms.num_bytes() : 0));
    }
    CHECK(dequantized_bytes(format, config, 4096, true) == 0);
  }
}
