// Tests the row kernels below the ops, where a bound is easiest to state: codecs and exp.
#include <bit>
#include <limits>

#include "ops/kernels/kernels.h"
#include "ops/reference.h"
#include "quant/format.h"

using namespace qrl;

TEST_CASE("bf16 encoding: equals the scalar conversion for every upper half, at and around its ties") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  std::vector<float> values;
  for (std::uint32_t high = 0; high < 0x10000; ++high) {
    for (const std::uint32_t low : {0x0000U, 0x0001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      values.push_back(std::bit_cast<float>(high << 16 | low));
    }
  }
  values.pop_back();  // an odd length
  std::vector<std::uint16_t> quantized(values.size());
  ops::kernels().round_to_bf16(values.data(), static_cast<std::int64_t>(values.size()), quantized.data());
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) wrong += quantized[i] != base::to_bf16(values[i]).bits;
  CHECK(wrong == 0);
  std::vector<float> back(values.size());
  ops::kernels().widen_bf16(quantized.data(), static_cast<std::int64_t>(quantized.size()), back.data());
  for (std::size_t i = 0; i < values.size(); ++i) {
    wrong += std::bit_cast<std::uint32_t>(back[i]) != static_cast<std::uint32_t>(quantized[i]) << 16;
  }
  CHECK(wrong == 0);
}

TEST_CASE("int8 encoding of rows: bits equal the reference codec's") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const std::int64_t width = GENERATE(1, 7, 33, 64, 257, 1000);
  const float sigma = GENERATE(1.0F, 1e-20F, 1e-43F, 1e37F);
  std::vector<float> values = test::normal_values(width, sigma, static_cast<std::uint64_t>(width));
  if (width >= 257) {
    for (int i = -127; i <= 127; ++i) values[static_cast<std::size_t>(i + 127)] = static_cast<float>(i) / 2;  // ties
    values[255] = 127.0F;
  }
  const auto check = [&] {
    std::vector<std::int8_t> got(values.size()), want(values.size());
    const float scale = ops::kernels().quantize_int8(values.data(), width, got.data());
    const float want_scale = quant::quantize_int8(values, want);
    CHECK((scale == want_scale || (std::isnan(scale) && std::isnan(want_scale))));
    CHECK(got == want);
  };
  check();
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    values.back() = bad;
    check();
  }
  std::fill(values.begin(), values.end(), 0.0F);
  check();
}

TEST_CASE("exp: within 2 ulp, ends at zero and infinity, and keeps NaN") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  std::vector<float> x, got;
  // Every 4,001st float (a prime, so all low bits occur) of either sign.
  for (std::uint64_t bits = 0; bits <= 0xffffffffU; bits += 4001) {
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  for (float dense = -104.5F; dense < 89.5F; dense += 0.0007F) x.push_back(dense);
  got.resize(x.size());
  ops::kernels().exp_weights(x.data(), static_cast<std::int64_t>(x.size()), 0.0F, 1.0F, got.data());
  double worst_ulp = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i])) {
      REQUIRE(std::isnan(got[i]));
      continue;
    }
    const double want = std::exp(static_cast<double>(x[i]));
    if (want > static_cast<double>(std::numeric_limits<float>::max())) {
      REQUIRE(std::isinf(got[i]));
    } else if (want < static_cast<double>(std::numeric_limits<float>::min())) {
      REQUIRE(std::fabs(got[i] - want) <= 0x1p-149 * 2);
    } else {
      const double ulp = std::ldexp(1.0, std::ilogb(want) - 23);
      const double error = std::fabs(got[i] - want) / ulp;
      REQUIRE(error <= 2);
      worst_ulp = std::max(worst_ulp, error);
    }
  }
  CAPTURE(worst_ulp);
  CHECK(worst_ulp > 0.4);  // the measure itself detects rounding
}
