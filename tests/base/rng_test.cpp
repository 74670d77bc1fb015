#include "base/rng.h"

#include <map>
#include <vector>

#include "support/catch.h"

using namespace qrl::base;

TEST_CASE("philox: equals the published known answers") {
  // Known-answer vectors of Random123 1.14 (kat_vectors, philox4x32 10 rounds).
  using W = std::array<std::uint32_t, 4>;
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == W{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}) == W{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        W{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("random fields: words depend only on seed, purpose and counter") {
  const RandomField a(7, RandomPurpose::sampling);
  CHECK(a.uniform({1, 2, 3, 4}) == RandomField(7, RandomPurpose::sampling).uniform({1, 2, 3, 4}));
  CHECK(a.uniform({1, 2, 3, 4}) != a.uniform({1, 2, 3, 5}));
  CHECK(a.uniform({1, 2, 3, 4}) != RandomField(8, RandomPurpose::sampling).uniform({1, 2, 3, 4}));
  CHECK(a.uniform({1, 2, 3, 4}) != RandomField(7, RandomPurpose::generator).uniform({1, 2, 3, 4}));
}

TEST_CASE("random fields: bounded draws are uniform") {
  RandomStream stream(3, RandomPurpose::test, 0);
  std::map<std::uint64_t, int> seen;
  constexpr int kDraws = 60000;
  for (int i = 0; i < kDraws; ++i) ++seen[stream.below(6)];
  REQUIRE(seen.size() == 6);
  double chi2 = 0;
  for (const auto& [face, n] : seen) chi2 += (n - kDraws / 6.0) * (n - kDraws / 6.0) / (kDraws / 6.0);
  CHECK(chi2 < 20.5);  // χ²(5) at 0.999
}

TEST_CASE("random fields: normal draws have mean 0 and variance 1") {
  RandomStream stream(4, RandomPurpose::test, 1);
  double sum = 0, squares = 0;
  constexpr int kDraws = 100000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = stream.normal();
    sum += x;
    squares += x * x;
  }
  CHECK(std::fabs(sum / kDraws) < 0.011);  // 3.5 standard errors
  CHECK(std::fabs(squares / kDraws - 1.0) < 0.016);
}
