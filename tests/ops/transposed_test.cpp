// Int8 codes the other way round, against what decoding says of them.
#include "ops/transposed.h"

#include <cmath>

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
// Around a word's four inputs, a vector's sixteen bytes and a panel's 64 columns.
const std::vector<Shape> kShapes{{1, 1}, {1, 7}, {7, 33}, {33, 64}, {64, 257}, {257, 65}, {130, 3}, {66, 200}};

std::vector<float> decoded(const PackedLinear& packed) {
  std::vector<float> values(static_cast<std::size_t>(packed.out * packed.in));
  ops::unpack_rows(packed, 0, packed.out, values.data());
  return values;
}

/// Both members' parts by one thread after another.
template <class Body>
void by_two(const Body& body) {
  base::parallel(2, [&](Team& team) { body(team); });
}

void check_unscaled(const PackedLinear& packed) {
  const std::vector<float> codes = decoded(packed);
  for (std::int64_t out = 0; out < packed.out; ++out) {
    CHECK(packed.scales.as<float>()[out] == 1.0F);
    std::int64_t sum = 0;
    for (std::int64_t in = 0; in < packed.in; ++in)
      sum += std::lround(codes[static_cast<std::size_t>(out * packed.in + in)]);
    CHECK(packed.column_sums.as<std::int32_t>()[out] == 128 * sum);
  }
}

}  // namespace

TEST_CASE("a weight's codes transposed are its codes") {
  for (const auto& [out, in] : kShapes) {
    CAPTURE(out, in);
    const std::vector<float> values = test::normal_values(out * in, 1.0F, static_cast<std::uint64_t>(out + in));
    PackedLinear weight = ops::make_packed_linear(Format::int8, out, in, false);
    Team alone = Team::solo();
    REQUIRE(ops::pack_rows(alone, values.data(), out, 0, weight));
    PackedLinear transposed = ops::make_unscaled(in, out);
    by_two([&](Team& team) { ops::transpose_codes(team, weight, transposed); });
    const std::vector<float> want = decoded(weight), got = decoded(transposed);
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

TEST_CASE("activations' codes as a weight are their codes") {
  for (const auto& [rows, width] : kShapes) {
    CAPTURE(rows, width);
    const std::vector<float> values = test::normal_values(rows * width, 1.0F, static_cast<std::uint64_t>(rows));
    Activations x(Format::int8, rows, width);
    Team alone = Team::solo();
    ops::encode(alone, values.data(), {0, rows}, x);
    PackedLinear transposed = ops::make_unscaled(width, rows);
    by_two([&](Team& team) { ops::transpose_codes(team, x, transposed); });
    const std::vector<float> got = decoded(transposed);
    std::int64_t differ = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto* codes = static_cast<const std::int8_t*>(x.row(row));
      for (std::int64_t i = 0; i < width; ++i)
        differ += got[static_cast<std::size_t>(i * rows + row)] != static_cast<float>(codes[i]);
    }
    CHECK(differ == 0);
    check_unscaled(transposed);
  }
}

TEST_CASE("only int8 codes are transposed, to the shape that they have then") {
  Team alone = Team::solo();
  const PackedLinear bf16 = ops::make_packed_linear(Format::bf16, 4, 8, false);
  PackedLinear to = ops::make_unscaled(8, 4), other = ops::make_unscaled(4, 8);
  CHECK_THROWS_WITH(ops::transpose_codes(alone, bf16, to), Catch::Contains("int8"));
  const PackedLinear int8 = ops::make_packed_linear(Format::int8, 4, 8, false);
  CHECK_THROWS_WITH(ops::transpose_codes(alone, int8, other), Catch::Contains("transposed shape"));
  const Activations x(Format::int8, 8, 4);
  CHECK_THROWS_WITH(ops::transpose_codes(alone, x, to), Catch::Contains("transposed shape"));
}
