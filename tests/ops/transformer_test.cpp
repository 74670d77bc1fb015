#include "ops/transformer.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "ops/reference.h"

using namespace qrl;
using base::DType;
using base::Range;
using base::Team;
using ops::Activations;
using quant::Format;

namespace {

nlohmann::json golden() {
  std::ifstream file(test::shipped_data() / "golden" / "ops" / "ops.json");
  REQUIRE(file.good());
  return nlohmann::json::parse(file);
}

std::vector<float> floats(const nlohmann::json& numbers) { return numbers.get<std::vector<float>>(); }

/// norm: the sum of n squares in `lanes` chains, its root, three products.
double norm_bound(double y, std::int64_t n) { return (static_cast<double>(n) / 8 + 8) * 0x1p-24 * std::fabs(y); }
/// silu · up: exp within 2 ulp, the sum, the quotient, the product; results below the normal range may be zero.
double swiglu_bound(double y) { return 5 * 0x1p-23 * std::fabs(y) + 1e-35; }

void check_fused(const std::vector<float>& plain, std::int64_t width, const Activations& fused) {
  const auto rows = static_cast<std::int64_t>(plain.size()) / width;
  Activations separate(fused.format, rows, width);
  Team team = Team::solo();
  ops::quantize(team, plain.data(), {0, rows}, separate);
  test::check_same_bits(test::dequantized(fused, rows), test::dequantized(separate, rows));
}

}  // namespace

TEST_CASE("embed: copies fp32 rows and widens bf16 rows") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const std::int64_t width = GENERATE(7, 33, 64, 257);
  const int members = GENERATE(1, 2, 3);
  std::vector<float> table = test::normal_values(5 * width, 1, 1);
  std::vector<base::bf16> narrow;
  for (float& value : table) {
    narrow.push_back(base::to_bf16(value));
    value = to_float(narrow.back());
  }
  const std::vector<std::int32_t> tokens{4, 0, 2, 2, 1, 3};
  std::vector<float> want;
  for (const std::int32_t token : tokens) {
    want.insert(want.end(), table.begin() + token * width, table.begin() + (token + 1) * width);
  }
  for (const bool wide : {true, false}) {
    const base::View view{
        wide ? static_cast<void*>(table.data()) : narrow.data(), wide ? DType::f32 : DType::bf16, {5, width}};
    std::vector<float> x(want.size());
    base::parallel(members, [&](Team& team) { ops::embed(team, view, tokens.data(), {0, 6}, x.data()); });
    test::check_same_bits(x, want);
  }
  const std::vector<std::int32_t> bad{5};
  Team team = Team::solo();
  std::vector<float> x(static_cast<std::size_t>(width));
  CHECK_THROWS_AS(ops::embed(team, {table.data(), DType::f32, {5, width}}, bad.data(), {0, 1}, x.data()), base::Error);
}

TEST_CASE("rms_norm: equals its definition, and fused quantizing equals norm then quantize") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const std::int64_t width = GENERATE(7, 33, 64, 257);
  const std::int64_t rows = GENERATE(1, 7, 33);
  const std::vector<float> x = test::normal_values(rows * width, 3, 2), gain = test::normal_values(width, 1, 3);
  Activations out(Format::f32, rows, width);
  Team solo = Team::solo();
  ops::rms_norm(solo, x.data(), gain.data(), 1e-6F, {0, rows}, out);
  std::vector<double> want = test::rms_norm(x, gain, 1e-6F);
  const std::vector<float> got = test::dequantized(out, rows);
  test::check_close(got, want, [&](std::size_t i) { return norm_bound(want[i], width); });
  for (const Format format : {Format::bf16, Format::int8}) {
    Activations fused(format, rows, width);
    base::parallel(2, [&](Team& team) { ops::rms_norm(team, x.data(), gain.data(), 1e-6F, {0, rows}, fused); });
    check_fused(got, width, fused);
  }
}

TEST_CASE("swiglu: equals its definition, saturates without NaN, and fused quantizing equals swiglu then quantize") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const std::int64_t width = GENERATE(7, 33, 64, 257);
  const std::int64_t rows = GENERATE(1, 7, 33);
  std::vector<float> gate_up = test::normal_values(rows * 2 * width, 4, 4);
  gate_up[0] = -95.0F;  // exp(−gate) overflows: silu is 0, not NaN
  gate_up[1] = 95.0F;
  Activations out(Format::f32, rows, width);
  Team solo = Team::solo();
  ops::swiglu(solo, base::Gate::silu, gate_up.data(), {0, rows}, out);
  const std::vector<double> want = test::swiglu(gate_up, width);
  const std::vector<float> got = test::dequantized(out, rows);
  test::check_close(got, want, [&](std::size_t i) { return swiglu_bound(want[i]); });
  for (const Format format : {Format::bf16, Format::int8}) {
    Activations fused(format, rows, width);
    base::parallel(3, [&](Team& team) { ops::swiglu(team, base::Gate::silu, gate_up.data(), {0, rows}, fused); });
    check_fused(got, width, fused);
  }
}

TEST_CASE("geglu: equals GELU with tanh in fp64, also where it saturates") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  constexpr std::int64_t kWidth = 257, kRows = 3;
  std::vector<float> gate_up = test::normal_values(kRows * 2 * kWidth, 3, 6);
  gate_up[0] = -95.0F;
  gate_up[1] = 95.0F;
  gate_up[2] = -4.0F;
  Activations out(Format::f32, kRows, kWidth);
  Team solo = Team::solo();
  ops::swiglu(solo, base::Gate::gelu_tanh, gate_up.data(), {0, kRows}, out);
  const std::vector<double> want = test::swiglu(gate_up, kWidth, base::Gate::gelu_tanh);
  // For negative gates, rounding of the exponent 2z is multiplied by |2z|.
  test::check_close(test::dequantized(out, kRows), want, [&](std::size_t i) {
    const auto row = i / kWidth;
    const double g = gate_up[row * 2 * kWidth + i % kWidth], z = 1.6 * g * (1 + 0.044715 * g * g);
    return (8 + 2 * std::fabs(z)) * 0x1p-23 * std::fabs(want[i]) + 1e-14;  // 1 + tanh cancels in fp64
  });
}

TEST_CASE("rms_norm, swiglu: a NaN stays in its row") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const Format format = GENERATE(Format::f32, Format::bf16, Format::int8);
  constexpr std::int64_t kWidth = 33;
  std::vector<float> x = test::normal_values(3 * kWidth, 1, 5);
  x[kWidth + 32] = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> gate_up = test::normal_values(3 * 2 * kWidth, 1, 6);
  gate_up[2 * kWidth + 32] = std::numeric_limits<float>::quiet_NaN();
  Activations normed(format, 3, kWidth), gated(format, 3, kWidth);
  Team team = Team::solo();
  ops::rms_norm(team, x.data(), test::normal_values(kWidth, 1, 7).data(), 1e-6F, {0, 3}, normed);
  ops::swiglu(team, base::Gate::silu, gate_up.data(), {0, 3}, gated);
  for (const Activations* out : {&normed, &gated}) {
    const std::vector<float> values = test::dequantized(*out, 3);
    CHECK(std::isfinite(std::accumulate(values.begin(), values.begin() + kWidth, 0.0F)));
    CHECK(std::isnan(values[kWidth + 32]));
    CHECK(std::isfinite(std::accumulate(values.begin() + 2 * kWidth, values.end(), 0.0F)));
  }
}

TEST_CASE("rms_norm, swiglu: equal torch's") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  Team team = Team::solo();
  const nlohmann::json all = golden();
  const nlohmann::json& norm = all["rms_norm"];
  Activations normed(Format::f32, 3, 33);
  ops::rms_norm(team, floats(norm["x"]).data(), floats(norm["gain"]).data(), norm["eps"].get<float>(), {0, 3}, normed);
  const auto want_norm = norm["y"].get<std::vector<double>>();
  test::check_close(test::dequantized(normed, 3), want_norm,
                    [&](std::size_t i) { return norm_bound(want_norm[i], 33); });

  Activations gated(Format::f32, 2, 33);
  ops::swiglu(team, base::Gate::silu, floats(all["swiglu"]["gate_up"]).data(), {0, 2}, gated);
  const auto want_gated = all["swiglu"]["y"].get<std::vector<double>>();
  test::check_close(test::dequantized(gated, 2), want_gated,
                    [&](std::size_t i) { return swiglu_bound(want_gated[i]); });
}

TEST_CASE("RoPE table: cos and sin in fp64, rounded once") {
  const base::Buffer table = ops::make_rope_table(300, 34, 5e5);
  REQUIRE(table.shape() == base::Shape({300, 34}));
  for (const std::int64_t position : {0, 1, 299}) {
    for (const std::int64_t i : {0, 7, 16}) {
      const double angle = static_cast<double>(position) / std::pow(5e5, 2.0 * static_cast<double>(i) / 34);
      const float* row = table.as<float>() + position * 34;
      // The angle itself has an error of a few units of fp64 at 300 radians.
      CHECK(test::close(row[i], std::cos(angle), 0x1p-24, 0));
      CHECK(test::close(row[17 + i], std::sin(angle), 0x1p-24, 0));
    }
  }
}
