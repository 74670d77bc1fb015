#include "ops/linear.h"

#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "ops/reference.h"

using namespace qrl;
using base::Range;
using base::Team;
using ops::Activations;
using ops::PackedLinear;
using quant::Format;

namespace {

std::vector<Format> all_formats() {
  std::vector<Format> formats;
  for (int i = 0; i < quant::kNumFormats; ++i) formats.push_back(static_cast<Format>(i));
  return formats;
}

struct Problem {
  std::int64_t rows, in, out;
};
// Widths around the group sizes (8, 4, 2), the vector sizes, a scale's 128 inputs and the panel. Rows around the tile
// heights and the dequantization batch. Last columns of one and of two vectors.
const std::vector<Problem> kProblems{{1, 7, 33},     {7, 33, 64},  {33, 64, 257},  {5, 257, 7},   {6, 64, 64},
                                     {13, 130, 129}, {1, 300, 65}, {101, 257, 70}, {8, 3201, 66}, {29, 66, 84}};

PackedLinear packed(const std::vector<float>& weight, const Problem& p, Format format, const std::vector<float>& bias) {
  PackedLinear layer = ops::make_packed_linear(format, p.out, p.in, !bias.empty());
  Team team = Team::solo();
  REQUIRE(ops::pack_rows(team, weight.data(), p.out, 0, layer));
  if (!bias.empty()) std::memcpy(layer.bias.as<float>(), bias.data(), bias.size() * sizeof(float));
  return layer;
}

Activations quantized(const std::vector<float>& x, const Problem& p, Format format) {
  Activations out(format, p.rows, p.in);
  Team team = Team::solo();
  ops::quantize(team, x.data(), {0, p.rows}, out);
  return out;
}

std::vector<float> product(const Activations& x, const PackedLinear& layer, std::int64_t rows) {
  std::vector<float> y(static_cast<std::size_t>(rows * layer.out), -77.0F);
  Team team = Team::solo();
  ops::linear(team, x, layer, {0, rows}, false, y.data());
  return y;
}

/// Bound of fp32 accumulation in any order: (terms + 4) · 2⁻²⁴ · Σ|x·w|, plus the last roundings of |y|. The 4 covers
/// scales, their product, bias and residual.
struct Expected {
  std::vector<double> value, bound;
};
Expected expected(const std::vector<float>& x, const std::vector<float>& w, const Problem& p,
                  const std::vector<float>& bias) {
  Expected all;
  for (std::int64_t row = 0; row < p.rows; ++row) {
    for (std::int64_t column = 0; column < p.out; ++column) {
      double sum = 0, magnitude = 0;
      for (std::int64_t k = 0; k < p.in; ++k) {
        const double term = static_cast<double>(x[static_cast<std::size_t>(row * p.in + k)]) *
                            w[static_cast<std::size_t>(column * p.in + k)];
        sum += term;
        magnitude += std::fabs(term);
      }
      if (!bias.empty()) {
        sum += bias[static_cast<std::size_t>(column)];
        magnitude += std::fabs(bias[static_cast<std::size_t>(column)]);
      }
      all.value.push_back(sum);
      all.bound.push_back((static_cast<double>(p.in) + 4) * 0x1p-24 * magnitude);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("linear: equals the product of the quantized operands in fp64") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const Format format = GENERATE(from_range(all_formats()));
  const Problem p = GENERATE(from_range(kProblems));
  const bool with_bias = GENERATE(true, false);
  CAPTURE(path.name(), name(format), p.rows, p.in, p.out, with_bias);
  const std::vector<float> w = test::normal_values(p.out * p.in, 0.05F, 1);
  const std::vector<float> bias = with_bias ? test::normal_values(p.out, 0.5F, 2) : std::vector<float>{};
  const PackedLinear layer = packed(w, p, format, bias);
  const Activations x = quantized(test::normal_values(p.rows * p.in, 1.0F, 3), p, format);

  std::vector<float> stored(w.size());
  ops::unpack_rows(layer, 0, p.out, stored.data());
  const Expected want = expected(test::dequantized(x, p.rows), stored, p, bias);
  std::vector<float> y = product(x, layer, p.rows);
  test::check_close(y, want.value, [&](std::size_t i) { return want.bound[i]; });

  // Accumulation adds the same product to the existing values.
  std::vector<float> residual = test::normal_values(p.rows * p.out, 1.0F, 4);
  std::vector<float> sum = residual;
  Team team = Team::solo();
  ops::linear(team, x, layer, {0, p.rows}, true, sum.data());
  for (std::size_t i = 0; i < y.size(); ++i) residual[i] += y[i];
  test::check_same_bits(sum, residual);
}

TEST_CASE("linear: a range of columns has the whole product's bits, and other columns stay") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const Format format = GENERATE(from_range(all_formats()));
  CAPTURE(path.name(), name(format));
  const Problem p{13, 130, 157};
  constexpr std::int64_t kStride = 170;
  const PackedLinear layer = packed(test::normal_values(p.out * p.in, 0.05F, 1), p, format, {});
  const Activations x = quantized(test::normal_values(p.rows * p.in, 1.0F, 3), p, format);
  const std::vector<float> whole = product(x, layer, p.rows);
  for (const Range columns : {Range{64, 128}, Range{128, 157}, Range{0, 157}}) {
    std::vector<float> y(static_cast<std::size_t>(p.rows * kStride), -77.0F);
    Team team = Team::solo();
    ops::linear_into_columns(team, x, layer, {2, p.rows}, columns, false, y.data(), kStride);
    for (std::int64_t i = 0; i < p.rows * kStride; ++i) {
      const std::int64_t row = i / kStride, column = i % kStride;
      const bool is_written = row >= 2 && column >= columns.begin && column < columns.end;
      const float want = is_written ? whole[static_cast<std::size_t>(row * p.out + column)] : -77.0F;
      REQUIRE(std::bit_cast<std::uint32_t>(y[static_cast<std::size_t>(i)]) == std::bit_cast<std::uint32_t>(want));
    }
  }
}

TEST_CASE("linear: a product added to another has the bits of both in sequence") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const Format format = GENERATE(from_range(all_formats())), narrow = GENERATE(Format::bf16, Format::f32);
  const std::int64_t rows = GENERATE(1, 3, 67), rank = GENERATE(1, 8);
  CAPTURE(path.name(), name(format), name(narrow), rows, rank);
  const Problem p{rows, 130, 285}, q{rows, rank, 221};
  constexpr std::int64_t kFirst = 64, kStride = 300;
  const PackedLinear layer = packed(test::normal_values(p.out * p.in, 0.05F, 1), p, format,
                                    test::normal_values(p.out, 1.0F, 2)),
                     second = packed(test::normal_values(q.out * q.in, 1.0F, 4), q, narrow, {});
  const Activations x = quantized(test::normal_values(p.rows * p.in, 1.0F, 3), p, format),
                    z = quantized(test::normal_values(q.rows * q.in, 1.0F, 5), q, narrow);
  Team team = Team::solo();
  std::vector<float> both = product(x, layer, p.rows);
  ops::linear_into(team, z, second, {0, p.rows}, true, both.data() + kFirst, p.out);
  const std::vector<float> before = test::normal_values(p.rows * kStride, 1.0F, 6);
  const ops::AddedProduct added{z, second, kFirst};
  for (const bool accumulate : {false, true}) {
    for (const Range columns : {Range{64, 128}, Range{64, 285}, Range{256, 285}}) {
      std::vector<float> y = before, want = before;
      ops::linear_into_columns(team, x, layer, {0, p.rows}, columns, accumulate, y.data(), kStride, &added);
      for (std::int64_t row = 0; row < p.rows; ++row) {
        for (std::int64_t column = columns.begin; column < columns.end; ++column) {
          float& to = want[static_cast<std::size_t>(row * kStride + column)];
          to = (accumulate ? to : 0) + both[static_cast<std::size_t>(row * p.out + column)];
        }
      }
      test::check_same_bits(y, want);
    }
  }
}

TEST_CASE("int8 linear: exact integer arithmetic") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const Problem p = GENERATE(from_range(kProblems));
  CAPTURE(path.name(), p.rows, p.in, p.out);
  std::vector<float> w = test::normal_values(p.out * p.in, 0.05F, 5);
  std::vector<float> values = test::normal_values(p.rows * p.in, 1.0F, 6);
  // Rows and columns of only ±127 exercise every possible saturation.
  for (std::int64_t k = 0; k < p.in; ++k) {
    w[static_cast<std::size_t>(k)] = 1.0F;
    w[static_cast<std::size_t>(p.in + k)] = -1.0F;
    values[static_cast<std::size_t>(k)] = 3.0F;
  }
  const PackedLinear layer = packed(w, p, Format::int8, {});
  const Activations x = quantized(values, p, Format::int8);
  const std::vector<float> y = product(x, layer, p.rows);
  std::vector<std::int8_t> quantized(static_cast<std::size_t>(p.in));
  std::vector<float> want;
  for (std::int64_t row = 0; row < p.rows; ++row) {
    for (std::int64_t column = 0; column < p.out; ++column) {
      const float scale = quant::quantize_int8({w.data() + column * p.in, quantized.size()}, quantized);
      std::int32_t sum = 0;
      for (std::int64_t k = 0; k < p.in; ++k) {
        sum += static_cast<const std::int8_t*>(x.row(row))[k] * quantized[static_cast<std::size_t>(k)];
      }
      want.push_back(static_cast<float>(sum) * (x.scales.as<float>()[row] * scale));
    }
  }
  test::check_same_bits(y, want);
}

TEST_CASE("linear: vdpbf16ps and fp32 FMAs give the bits of AVX2, also of subnormal numbers") {
  if (!test::kAvx512Paths[0].supported()) return test::skip("this processor has no AVX-512");
  const test::WithPath path(GENERATE(test::kAvx512Paths[0], test::kAvx512Paths[1]));
  const Format format = GENERATE(Format::bf16, Format::fp8_channel, Format::fp8_block128, Format::int4);
  const auto [of_weights, of_tokens] =
      GENERATE(table<float, float>({{0.05F, 1.0F}, {1e-36F, 1.0F}, {1e-19F, 1e-20F}, {0.05F, 1e-38F}}));
  const Problem p = GENERATE(Problem{1, 133, 257}, Problem{4, 133, 257}, Problem{5, 257, 70}, Problem{40, 3333, 96});
  CAPTURE(path.name(), name(format), of_weights, p.rows);
  const PackedLinear layer = packed(test::normal_values(p.out * p.in, of_weights, 17), p, format, {});
  const Activations x = quantized(test::normal_values(p.rows * p.in, of_tokens, 18), p, format);
  const std::vector<float> got = product(x, layer, p.rows);
  const test::WithPath avx2({ops::Isa::avx2});
  test::check_same_bits(got, product(x, layer, p.rows));
}

TEST_CASE("linear: a row's bits depend on neither other rows, the row range nor the team") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const Format format = GENERATE(from_range(all_formats()));
  // Usual values, then three cases with products or scales below the normal range although not all results are.
  const auto [of_weights, of_tokens] =
      GENERATE(table<float, float>({{0.05F, 1.0F}, {1e-36F, 1.0F}, {1e-19F, 1e-20F}, {0.05F, 1e-38F}}));
  const Problem p{19, 133, 257};
  CAPTURE(path.name(), name(format), of_weights);
  const PackedLinear layer = packed(test::normal_values(p.out * p.in, of_weights, 7), p, format, {});
  const std::vector<float> values = test::normal_values(p.rows * p.in, of_tokens, 8);
  const Activations x = quantized(values, p, format);
  const std::vector<float> together = product(x, layer, p.rows);
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const std::vector<float> alone(values.begin() + row * p.in, values.begin() + (row + 1) * p.in);
    const Problem single{1, p.in, p.out};
    test::check_same_bits(product(quantized(alone, single, format), layer, 1),
                          {together.begin() + row * p.out, together.begin() + (row + 1) * p.out});
  }
  for (const int members : {1, 2, 3}) {
    std::vector<float> y(together.size(), 0.0F);
    Activations shared(format, p.rows, p.in);
    base::parallel(members, [&](Team& team) {
      ops::quantize(team, values.data(), {0, 5}, shared);
      ops::quantize(team, values.data(), {5, p.rows}, shared);
      team.barrier();
      ops::linear(team, shared, layer, {0, 3}, false, y.data());
      ops::linear(team, shared, layer, {3, p.rows}, false, y.data());
    });
    test::check_same_bits(y, together);
  }
}

TEST_CASE("packing: in pieces and by a team gives the same bytes, zero beyond the shape") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const Format format = GENERATE(from_range(all_formats()));
  const Problem p{1, 33, 157};
  const std::vector<float> w = test::normal_values(p.out * p.in, 0.05F, 9);
  const PackedLinear whole = packed(w, p, format, {});
  PackedLinear pieces = ops::make_packed_linear(format, p.out, p.in, false);
  // Pieces are separate tensors. Where a scale spans rows, only the team may divide a tensor.
  const bool one_tensor =
      spec(format).scope == quant::ScaleScope::tensor || spec(format).scope == quant::ScaleScope::block128;
  const std::vector<Range> tensors =
      one_tensor ? std::vector<Range>{{0, 157}} : std::vector<Range>{{0, 30}, {30, 101}, {101, 157}};
  base::parallel(2, [&](Team& team) {
    for (const Range rows : tensors) {
      ops::pack_rows(team, w.data() + rows.begin * p.in, rows.size(), rows.begin, pieces);
      team.barrier();
    }
  });
  CHECK(std::memcmp(whole.panels.view().data, pieces.panels.view().data, whole.panels.num_bytes()) == 0);
  std::vector<float> read(static_cast<std::size_t>(20 * p.in));
  ops::unpack_rows(whole, 57, 20, read.data());
  std::vector<float> rounded(w.size());
  quant::round_weights(format, w, p.in, rounded);
  test::check_same_bits(read, {rounded.begin() + 57 * p.in, rounded.begin() + 77 * p.in});
}

TEST_CASE("packing: int4 scales of least squares, equal the reference's bit for bit") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const Format format = GENERATE(Format::int4, Format::int4_g64, Format::int4_int8_g64, Format::int4_g32);
  const float size = GENERATE(0.05F, 1e-25F, 1e30F);
  CAPTURE(path.name(), name(format), size);
  const Problem p{1, 331, 70};
  const std::vector<float> w = test::normal_values(p.out * p.in, size, 9);
  PackedLinear layer = ops::make_packed_linear(format, p.out, p.in, false);
  layer.scale_rule = quant::ScaleRule::least_squares;
  Team team = Team::solo();
  REQUIRE(ops::pack_rows(team, w.data(), p.out, 0, layer));
  std::vector<float> read(w.size()), rounded(w.size()), largest(w.size());
  ops::unpack_rows(layer, 0, p.out, read.data());
  quant::round_weights(format, w, p.in, rounded, {}, quant::ScaleRule::least_squares);
  quant::round_weights(format, w, p.in, largest);
  test::check_same_bits(read, rounded);
  CHECK(rounded != largest);
}

TEST_CASE("repacking: counts the quantized values that it changes") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const Format format = GENERATE(Format::int8, Format::int4, Format::int4_int8, Format::fp8_channel);
  CAPTURE(path.name(), name(format));
  const Problem p{1, 69, 157};
  const std::vector<float> before = test::normal_values(p.out * p.in, 0.05F, 9);
  std::vector<float> after = before;
  for (std::size_t i = 0; i < after.size(); i += 3) after[i] += 0.01F;
  PackedLinear layer = packed(before, p, format, {});
  const auto values = [&] {
    std::vector<std::uint8_t> all(before.size());
    ops::unpack_quantized(layer, 0, p.out, all.data());
    return all;
  };
  const std::vector<std::uint8_t> old_values = values();
  std::int64_t changed = 0;
  std::array<std::int64_t, 2> of_member = {};
  base::parallel(2, [&](Team& team) {
    ops::pack_rows(team, after.data(), p.out, 0, layer, {}, &of_member[static_cast<std::size_t>(team.rank())]);
  });
  const std::vector<std::uint8_t> new_values = values();
  for (std::size_t i = 0; i < old_values.size(); ++i) changed += old_values[i] != new_values[i] ? 1 : 0;
  CHECK(changed > 100);
  CHECK(of_member[0] + of_member[1] == changed);
}

TEST_CASE("quantizing rows: with factors equals quantizing their product") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  CAPTURE(path.name());
  constexpr std::int64_t kIn = 77;
  const std::vector<float> factors = test::normal_values(kIn, 1.0F, 2);
  std::vector<std::vector<float>> rows(3, test::normal_values(kIn, 1.0F, 1));
  std::fill(rows[1].begin(), rows[1].end(), 0.0F);
  rows[2][76] = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& row : rows) {
    std::vector<float> products = row;
    for (std::size_t i = 0; i < products.size(); ++i) products[i] *= factors[i];
    Activations want(Format::int8, 2, kIn), got(Format::int8, 2, kIn);
    ops::quantize_row(products.data(), 1, want);
    ops::quantize_product(row.data(), factors.data(), 1, got);
    CHECK(std::memcmp(want.scales.view().data, got.scales.view().data, want.scales.num_bytes()) == 0);
    CHECK(std::memcmp(want.quantized.view().data, got.quantized.view().data, want.quantized.num_bytes()) == 0);
  }
}

TEST_CASE("bf16 packing: rows come back as stored") {
  const Problem p{1, 34, 157};
  const PackedLinear layer = packed(test::normal_values(p.out * p.in, 0.05F, 10), p, Format::bf16, {});
  std::vector<float> wide(static_cast<std::size_t>(90 * p.in));
  std::vector<std::uint16_t> stored(wide.size());
  ops::unpack_rows(layer, 57, 90, wide.data());
  ops::unpack_rows(layer, 57, 90, stored.data());
  for (std::size_t i = 0; i < wide.size(); ++i)
    REQUIRE(std::bit_cast<std::uint32_t>(wide[i]) == std::uint32_t{stored[i]} << 16);
}

TEST_CASE("packing: consecutive tensors keep their own scales, with blocks from a tensor's first row") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const Format format = GENERATE(from_range(all_formats()));
  CAPTURE(path.name(), name(format));
  // Like q | k | v in one matrix: neither k's nor v's rows begin at a multiple of a block's 128, and k has two blocks
  // of rows.
  constexpr std::int64_t kIn = 150;
  const std::vector<Range> tensors{{0, 200}, {200, 350}, {350, 420}};
  PackedLinear layer = ops::make_packed_linear(format, tensors.back().end, kIn, false);
  std::vector<std::vector<float>> weights;
  for (const Range rows : tensors)
    weights.push_back(test::normal_values(rows.size() * kIn, 0.05F, 30 + weights.size()));
  base::parallel(2, [&](Team& team) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      ops::pack_rows(team, weights[i].data(), tensors[i].size(), tensors[i].begin, layer);
      team.barrier();
    }
  });
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::vector<float> rounded(weights[i].size()), read(weights[i].size());
    quant::round_weights(format, weights[i], kIn, rounded);
    ops::unpack_rows(layer, tensors[i].begin, tensors[i].size(), read.data());
    test::check_same_bits(read, rounded);
  }
}

TEST_CASE("packed weights, quantized rows: hold the reference's values, bit for bit") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const Format format = GENERATE(from_range(all_formats()));
  const Problem p{5, 300, 150};
  CAPTURE(path.name(), name(format));
  std::vector<float> w = test::normal_values(p.out * p.in, 0.05F, 21),
                     values = test::normal_values(p.rows * p.in, 1.0F, 22);
  // A zero row, a zero block, an outlier, numbers that e4m3 holds as subnormals or not at all.
  std::fill_n(w.begin() + 7 * p.in, p.in, 0.0F);
  std::fill_n(w.begin() + 9 * p.in + 128, 128, 0.0F);
  w[static_cast<std::size_t>(11 * p.in + 5)] = 30.0F;
  std::fill_n(values.begin() + p.in, p.in, 0.0F);
  values[static_cast<std::size_t>(2 * p.in)] = 5000.0F;
  std::vector<float> rounded(w.size()), read(w.size());
  quant::round_weights(format, w, p.in, rounded);
  ops::unpack_rows(packed(w, p, format, {}), 0, p.out, read.data());
  test::check_same_bits(read, rounded);
  const std::vector<float> dequantized = test::dequantized(quantized(values, p, format), p.rows);
  for (std::int64_t row = 0; row < p.rows; ++row) {
    std::vector<float> want(static_cast<std::size_t>(p.in));
    quant::round_activations(format, {values.data() + row * p.in, want.size()}, want);
    test::check_same_bits({dequantized.begin() + row * p.in, dequantized.begin() + (row + 1) * p.in}, want);
  }
}

TEST_CASE("non-finite values: an error in packing, NaN in a row") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const Format format = GENERATE(from_range(all_formats()));
  const float bad = GENERATE(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                             -std::numeric_limits<float>::infinity());
  const std::int64_t at = GENERATE(0, 15, 32);
  const Problem p{3, 33, 40};
  std::vector<float> w = test::normal_values(p.out * p.in, 0.05F, 10);
  const PackedLinear layer = packed(w, p, format, {});
  std::vector<float> values = test::normal_values(p.rows * p.in, 1.0F, 11);
  values[static_cast<std::size_t>(p.in + at)] = bad;
  const std::vector<float> y = product(quantized(values, p, format), layer, p.rows);
  for (std::int64_t column = 0; column < p.out; ++column) {
    CHECK(std::isfinite(y[static_cast<std::size_t>(column)]));
    CHECK_FALSE(std::isfinite(y[static_cast<std::size_t>(p.out + column)]));
    CHECK(std::isfinite(y[static_cast<std::size_t>(2 * p.out + column)]));
  }
  w[static_cast<std::size_t>(17 * p.in + at)] = bad;
  PackedLinear broken = ops::make_packed_linear(format, p.out, p.in, false);
  Team team = Team::solo();
  CHECK_FALSE(ops::pack_rows(team, w.data(), p.out, 0, broken));
}

TEST_CASE("linear: mismatched operands are refused") {
  Team team = Team::solo();
  const PackedLinear layer = ops::make_packed_linear(Format::bf16, 8, 16, false);
  std::vector<float> y(8 * 4);
  CHECK_THROWS_WITH(ops::linear(team, Activations(Format::int8, 4, 16), layer, {0, 4}, false, y.data()),
                    Catch::Matchers::Contains("int8"));
  CHECK_THROWS_AS(ops::linear(team, Activations(Format::bf16, 4, 17), layer, {0, 4}, false, y.data()), base::Error);
  CHECK_THROWS_AS(ops::linear(team, Activations(Format::bf16, 4, 16), layer, {2, 5}, false, y.data()), base::Error);
  CHECK_THROWS_AS(ops::make_packed_linear(Format::int8, 4, 1 << 20, false), base::Error);
}
