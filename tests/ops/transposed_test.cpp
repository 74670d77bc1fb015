// Tests transposed quantized values against dequantized ones.
#include <cmath>
#include <limits>

#include "ops/linear.h"
#include "ops/reference.h"

using namespace qrl;
using base::Team;
using ops::Activations;
using ops::PackedLinear;
using quant::Format;

namespace {

struct Shape {
  std::int64_t rows, cols;
};
// Sizes around a word's four inputs, a vector's sixteen bytes and a panel's 64 columns.
const std::vector<Shape> kMatrixShapes{{1, 1}, {1, 7}, {7, 33}, {33, 64}, {64, 257}, {257, 65}, {130, 3}, {66, 200}};

std::vector<float> dequantized(const PackedLinear& packed) {
  std::vector<float> values(static_cast<std::size_t>(packed.out * packed.in));
  ops::unpack_rows(packed, 0, packed.out, values.data());
  return values;
}

/// Runs `body` with a team of two members.
template <class Body>
void by_two(const Body& body) {
  base::parallel(2, [&](Team& team) { body(team); });
}

void check_unscaled(const PackedLinear& packed) {
  const std::vector<float> quantized = dequantized(packed);
  for (std::int64_t out = 0; out < packed.out; ++out) {
    CHECK(packed.scales.as<float>()[out] == 1.0F);
    std::int64_t sum = 0;
    for (std::int64_t in = 0; in < packed.in; ++in)
      sum += std::lround(quantized[static_cast<std::size_t>(out * packed.in + in)]);
    CHECK(packed.column_sums.as<std::int32_t>()[out] == 128 * sum);
  }
}

}  // namespace

TEST_CASE("int8 transpose: a weight's transposed values are its values") {
  for (const auto& [out, in] : kMatrixShapes) {
    CAPTURE(out, in);
    const std::vector<float> values = test::normal_values(out * in, 1.0F, static_cast<std::uint64_t>(out + in));
    PackedLinear weight = ops::make_packed_linear(Format::int8, out, in, false);
    Team alone = Team::solo();
    REQUIRE(ops::pack_rows(alone, values.data(), out, 0, weight));
    PackedLinear transposed = ops::make_unscaled(in, out);
    by_two([&](Team& team) { ops::transpose_quantized(team, weight, transposed); });
    const std::vector<float> want = dequantized(weight), got = dequantized(transposed);
    std::int64_t differ = 0;
    for (std::int64_t o = 0; o < out; ++o) {
      for (std::int64_t i = 0; i < in; ++i) {
        differ += got[static_cast<std::size_t>(i * out + o)] * weight.scales.as<float>()[o] !=
                  want[static_cast<std::size_t>(o * in + i)];
      }
    }
    CHECK(differ == 0);
    check_unscaled(transposed);
  }
}

TEST_CASE("int8 transpose: activations as a weight keep their quantized values") {
  for (const auto& [rows, width] : kMatrixShapes) {
    CAPTURE(rows, width);
    const std::vector<float> values = test::normal_values(rows * width, 1.0F, static_cast<std::uint64_t>(rows));
    Activations x(Format::int8, rows, width);
    Team alone = Team::solo();
    ops::quantize(alone, values.data(), {0, rows}, x);
    PackedLinear transposed = ops::make_unscaled(width, rows);
    by_two([&](Team& team) { ops::transpose_quantized(team, x, transposed); });
    const std::vector<float> got = dequantized(transposed);
    std::int64_t differ = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto* quantized = static_cast<const std::int8_t*>(x.row(row));
      for (std::int64_t i = 0; i < width; ++i)
        differ += got[static_cast<std::size_t>(i * rows + row)] != static_cast<float>(quantized[i]);
    }
    CHECK(differ == 0);
    check_unscaled(transposed);
  }
}

TEST_CASE("int8 transpose: accepts only int8, in the transposed shape") {
  Team alone = Team::solo();
  const PackedLinear bf16 = ops::make_packed_linear(Format::bf16, 4, 8, false);
  PackedLinear to = ops::make_unscaled(8, 4), other = ops::make_unscaled(4, 8);
  CHECK_THROWS_WITH(ops::transpose_quantized(alone, bf16, to), Catch::Contains("int8"));
  const PackedLinear int8 = ops::make_packed_linear(Format::int8, 4, 8, false);
  CHECK_THROWS_WITH(ops::transpose_quantized(alone, int8, other), Catch::Contains("transposed shape"));
  const Activations x(Format::int8, 8, 4);
  CHECK_THROWS_WITH(ops::transpose_quantized(alone, x, to), Catch::Contains("transposed shape"));
}

TEST_CASE("e4m3 transpose: a weight's blocks keep their values and scales, tensor by tensor") {
  struct Layer {
    std::vector<std::int64_t> tensors;
    std::int64_t in;
  };
  // Sizes around a word's four outputs, a panel's 64 and a block's 128; tensors begin within each of them.
  for (const auto& [tensors, in] :
       {Layer{{1}, 1}, Layer{{7}, 33}, Layer{{128}, 128}, Layer{{257}, 65}, Layer{{130}, 300}, Layer{{66, 2, 1}, 200},
        Layer{{128, 128}, 129}, Layer{{40, 20, 20}, 21}, Layer{{129, 127, 130}, 64}}) {
    std::int64_t out = 0;
    for (const std::int64_t outputs : tensors) out += outputs;
    CAPTURE(out, in, tensors.size());
    PackedLinear weight = ops::make_packed_linear(Format::fp8_block128, out, in, false);
    Team alone = Team::solo();
    std::vector<std::int64_t> places;  // positions of outputs among the transposed layer's inputs
    std::int64_t first = 0, first_place = 0;
    for (const std::int64_t outputs : tensors) {
      const auto values = test::normal_values(outputs * in, std::exp2(static_cast<float>(first % 5)),
                                              static_cast<std::uint64_t>(out + first));
      REQUIRE(ops::pack_rows(alone, values.data(), outputs, first, weight));
      for (std::int64_t o = 0; o < outputs; ++o) places.push_back(first_place + o);
      first += outputs;
      first_place += (outputs + 127) / 128 * 128;
    }
    if (tensors.size() > 1) weight.tensors = tensors;
    REQUIRE(ops::transposed_inputs(weight) == places.back() + 1);
    PackedLinear transposed = ops::make_packed_linear(Format::fp8_block128, in, places.back() + 1, false);
    by_two([&](Team& team) { ops::transpose_blocks(team, weight, transposed); });

    const std::vector<float> values = dequantized(weight), got = dequantized(transposed);
    std::vector<float> want(got.size(), 0.0F), row(static_cast<std::size_t>(out)), spread(places.size());
    for (std::int64_t i = 0; i < in; ++i) {
      for (std::int64_t o = 0; o < out; ++o) {
        const float value = values[static_cast<std::size_t>(o * in + i)];
        want[static_cast<std::size_t>(i * transposed.in + places[static_cast<std::size_t>(o)])] = value;
        row[static_cast<std::size_t>(o)] = value;
      }
      spread.assign(static_cast<std::size_t>(transposed.in), -1.0F);
      ops::spread_outputs(weight, row.data(), spread.data());
      CHECK(std::equal(spread.begin(), spread.end(), want.begin() + i * transposed.in));
    }
    CHECK((got == want));
  }
}

TEST_CASE("e4m3 columns: segments of 128 rows are quantized as by the reference") {
  for (const auto& [rows, width] : kMatrixShapes) {
    CAPTURE(rows, width);
    std::vector<float> values = test::normal_values(rows * width, 1.0F, static_cast<std::uint64_t>(3 * rows));
    const auto at = [&, width = width](std::int64_t row, std::int64_t column) -> float& {
      return values[static_cast<std::size_t>(row * width + column)];
    };
    for (std::int64_t row = 0; row < rows; ++row) at(row, width / 2) *= row < 128 ? 0.0F : 1e-30F;
    if (width > 2) at(rows - 1, 0) = std::nanf(""), at(rows / 2, 1) = -std::numeric_limits<float>::infinity();
    PackedLinear to = ops::make_packed_linear(Format::fp8_block128, width, rows, false);
    for (std::int64_t row = 0; row < rows; row += 128)
      ops::quantize_columns(values.data() + row * width, row, std::min<std::int64_t>(128, rows - row), to);
    const std::vector<float> got = dequantized(to);
    for (std::int64_t c = 0; c < width; ++c) {
      std::vector<float> column, want(static_cast<std::size_t>(rows));
      for (std::int64_t row = 0; row < rows; ++row) column.push_back(at(row, c));
      quant::round_activations(Format::fp8_block128, column, want);
      const auto same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
      CHECK(std::equal(want.begin(), want.end(), got.begin() + c * rows, same));
    }
  }
}

TEST_CASE("e4m3 transpose: accepts only block128 operands, in their shapes") {
  Team alone = Team::solo();
  PackedLinear channels = ops::make_packed_linear(Format::fp8_channel, 8, 8, false);
  PackedLinear blocks = ops::make_packed_linear(Format::fp8_block128, 8, 260, false);
  PackedLinear other = ops::make_packed_linear(Format::fp8_block128, 260, 9, false);
  CHECK_THROWS_WITH(ops::transpose_blocks(alone, channels, channels), Catch::Contains("block128"));
  CHECK_THROWS_WITH(ops::transpose_blocks(alone, blocks, other), Catch::Contains("transposed shape"));
  blocks.tensors = {4, 5};
  CHECK_THROWS_WITH(ops::transposed_inputs(blocks), Catch::Contains("8 outputs"));
  const std::vector<float> rows(8 * 128);
  CHECK_THROWS_WITH(ops::quantize_columns(rows.data(), 0, 8, channels), Catch::Contains("block128"));
  CHECK_THROWS_WITH(ops::quantize_columns(rows.data(), 64, 128, blocks), Catch::Contains("a block of rows"));
  CHECK_THROWS_WITH(ops::quantize_columns(rows.data(), 256, 128, blocks), Catch::Contains("a block of rows"));
}
