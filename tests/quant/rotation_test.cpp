#include "quant/rotation.h"

#include <bit>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "quant/rotation_golden.h"
#include "support/catch.h"

using namespace qrl;
using quant::Rotation;

TEST_CASE("rotation: rows rotated by blocks equal numpy's, bit for bit") {
  const test::RotationGolden golden;
  for (const std::int64_t block : quant::kRotationBlocks) {
    CAPTURE(block);
    for (const bool are_weights : {true, false}) {
      std::vector<float> rows = are_weights ? golden.weights : golden.tokens;
      quant::rotate({block}, rows);
      CHECK(test::checksums(rows, golden.inputs) == golden.of(block).at(are_weights ? "weights" : "tokens"));
    }
  }
}

TEST_CASE("rotation: a row times Sylvester's matrix, and applying it twice gives the row") {
  const test::RotationGolden golden;
  for (const std::int64_t block : quant::kRotationBlocks) {
    CAPTURE(block);
    std::vector<float> rotated = golden.tokens;
    quant::rotate({block}, rotated);
    for (std::int64_t i = 0; i < golden.inputs; ++i) {
      double sum = 0, magnitude = 0;
      for (std::int64_t k = i / block * block; k < (i / block + 1) * block; ++k) {
        const bool is_minus = std::popcount(static_cast<std::uint64_t>((i % block) & (k % block))) % 2 != 0;
        const double term = golden.tokens[static_cast<std::size_t>(golden.inputs + k)] / std::sqrt(block);
        sum += is_minus ? -term : term;
        magnitude += std::fabs(term);
      }
      // Row 1 has outliers. The bound has log2(block) sums and a product, each rounded by 2⁻²⁴.
      CHECK(std::fabs(rotated[static_cast<std::size_t>(golden.inputs + i)] - sum) <= 8 * 0x1p-24 * magnitude);
    }
    std::vector<float> back = rotated;
    quant::rotate({block}, back);
    float most = 0, largest = 0;
    for (std::size_t i = 0; i < back.size(); ++i) {
      most = std::max(most, std::fabs(back[i] - golden.tokens[i]));
      largest = std::max(largest, std::fabs(golden.tokens[i]));
    }
    CHECK(most <= 1e-6F * largest);
    CHECK(rotated != golden.tokens);
  }
}

TEST_CASE("rotation: none changes nothing, a block that does not divide the width is an internal error") {
  std::vector<float> row(96, 1.0F);
  quant::rotate({}, row);
  CHECK(row == std::vector<float>(96, 1.0F));
  CHECK(Rotation{}.fits(97));
  CHECK(Rotation{32}.fits(96));
  CHECK_FALSE(Rotation{64}.fits(96));
  CHECK_THROWS_AS(quant::rotate({64}, row), base::Error);
}
