// Tests a mixture's routes and the products of its experts.
#include "ops/experts.h"

#include <cstring>
#include <limits>
#include <numeric>

#include "ops/reference.h"

using namespace qrl;
using ops::Activations;
using ops::ExpertRows;
using ops::PackedLinear;
using ops::Router;
using quant::Format;

namespace {

struct Route {
  bool is_finite = false;
  std::vector<std::uint8_t> own, used;
  std::vector<float> gates;
};

Route route_of(const Router& router, const std::vector<float>& logits, const std::vector<std::uint8_t>& given = {}) {
  const auto k = static_cast<std::size_t>(router.per_token);
  Route route{false, std::vector<std::uint8_t>(k), std::vector<std::uint8_t>(k), std::vector<float>(k)};
  route.is_finite = ops::choose_experts(router, logits.data(), given.empty() ? nullptr : given.data(), route.own.data(),
                                        route.used.data(), route.gates.data());
  return route;
}

/// Returns the gates of a route by the definition, in fp64.
std::vector<double> gates_in_fp64(const std::vector<float>& logits, const std::vector<std::uint8_t>& route,
                                  bool normalizes) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double total = 0, of_route = 0;
  for (const float logit : logits) total += std::exp(logit - largest);
  std::vector<double> gates;
  for (const std::uint8_t expert : route) gates.push_back(std::exp(logits[expert] - largest) / total);
  for (const double gate : gates) of_route += gate;
  if (normalizes) {
    for (double& gate : gates) gate /= of_route;
  }
  return gates;
}

/// A layer of experts, with rows and routes. Expert 1 of 5 has no row.
struct Mixture {
  static constexpr std::int64_t kRows = 23, kExperts = 5, kChosen = 3, kIn = 130, kOut = 157;
  Router router{kExperts, kChosen, true};
  std::vector<float> x = test::normal_values(kRows * kIn, 1.0F, 1);
  std::vector<std::vector<float>> weights;
  std::vector<PackedLinear> packed;
  ExpertRows rows;

  explicit Mixture(Format format, Format third = Format::f32, bool mixed = false) {
    base::Team team = base::Team::solo();
    for (std::int64_t expert = 0; expert < kExperts; ++expert) {
      weights.push_back(test::normal_values(kOut * kIn, 0.05F, 10 + static_cast<std::uint64_t>(expert)));
      packed.push_back(ops::make_packed_linear(mixed && expert == 3 ? third : format, kOut, kIn, false));
      REQUIRE(ops::pack_rows(team, weights.back().data(), kOut, 0, packed.back()));
    }
    constexpr std::array<std::array<std::uint8_t, 3>, 4> kRoutes{{{0, 2, 3}, {2, 3, 4}, {0, 3, 4}, {0, 2, 4}}};
    for (std::int64_t row = 0; row < kRows; ++row) {
      const auto& route = kRoutes[static_cast<std::size_t>(row * row % 4 + row % 3) % 4];
      rows.experts.insert(rows.experts.end(), route.begin(), route.end());
    }
    rows.gates = test::normal_values(kRows * kChosen, 0.3F, 3);
    ops::sort_rows(router, rows);
  }

  Activations quantized(Format format) const {
    Activations all(format, kRows, kIn);
    base::Team team = base::Team::solo();
    ops::quantize(team, x.data(), {0, kRows}, all);
    return all;
  }
};

/// Returns y [N·k, out] in sorted order, computed by a team.
std::vector<float> product_of(const Mixture& mixture, Format format, const Activations* wide_rows, int num_threads) {
  const Activations all = mixture.quantized(format);
  const auto pairs = static_cast<std::int64_t>(mixture.rows.row_of.size());
  Activations sorted(format, pairs, Mixture::kIn);
  Activations wide = wide_rows == nullptr ? Activations() : Activations(wide_rows->format, pairs, Mixture::kIn);
  std::vector<float> y(static_cast<std::size_t>(pairs * Mixture::kOut), -77.0F);
  base::parallel(num_threads, [&](base::Team& team) {
    ops::gather_rows(team, all, mixture.rows.row_of, sorted);
    if (wide_rows != nullptr) ops::gather_rows(team, *wide_rows, mixture.rows.row_of, wide);
    team.barrier();
    ops::expert_linear(team, sorted, wide_rows == nullptr ? nullptr : &wide, mixture.packed, mixture.rows.starts,
                       y.data());
  });
  return y;
}

/// Returns row n's product with an expert, computed alone by `linear`.
std::vector<float> product_alone(const Mixture& mixture, Format format, std::int64_t row, std::size_t expert) {
  Activations one(format, 1, Mixture::kIn);
  base::Team team = base::Team::solo();
  ops::quantize(team, mixture.x.data() + row * Mixture::kIn, {0, 1}, one);
  std::vector<float> y(Mixture::kOut);
  ops::linear(team, one, mixture.packed[expert], {0, 1}, false, y.data());
  return y;
}

std::vector<Format> formats_of_experts() {
  std::vector<Format> formats;
  for (int i = 0; i < quant::kNumFormats; ++i) formats.push_back(static_cast<Format>(i));
  return formats;
}

}  // namespace

TEST_CASE("routing: takes the largest logits, ties to the lower index, experts in ascending order") {
  const std::vector<float> logits{0.1F, 0.5F, 0.5F, -1.0F, 0.5F, 2.0F};
  CHECK(route_of({6, 1, true}, logits).own == std::vector<std::uint8_t>{5});
  CHECK(route_of({6, 2, true}, logits).own == std::vector<std::uint8_t>{1, 5});
  CHECK(route_of({6, 3, true}, logits).own == std::vector<std::uint8_t>{1, 2, 5});
  CHECK(route_of({6, 4, false}, logits).own == std::vector<std::uint8_t>{1, 2, 4, 5});
  CHECK(route_of({6, 6, false}, logits).own == std::vector<std::uint8_t>{0, 1, 2, 3, 4, 5});
  CHECK(route_of({6, 2, true}, std::vector<float>(6, 0.0F)).own == std::vector<std::uint8_t>{0, 1});
  // logits apart by one bit, whose probabilities in fp32 are equal
  const float large = 20.0F;
  CHECK(route_of({2, 1, true}, {large, std::nextafter(large, 30.0F)}).own == std::vector<std::uint8_t>{1});
}

TEST_CASE("gates: softmax over all experts, divided by the route's sum if the router normalizes") {
  const bool normalizes = GENERATE(false, true);
  for (const std::int64_t count : {2, 8, 128, 256}) {
    for (const std::int64_t chosen : {std::int64_t{1}, std::int64_t{2}, count}) {
      CAPTURE(count, chosen, normalizes);
      const std::vector<float> logits = test::normal_values(count, 2.0F, static_cast<std::uint64_t>(count + chosen));
      const Route route = route_of({count, chosen, normalizes}, logits);
      REQUIRE(route.is_finite);
      CHECK(route.own == route.used);
      const std::vector<double> want = gates_in_fp64(logits, route.used, normalizes);
      // u = 2⁻²⁴: each term has exp's 2 u and the subtraction's, the sums M u and k u, the divisions a u each
      const double relative = static_cast<double>(2 * count + 20) * 0x1p-24;
      test::check_close(route.gates, want, [&](std::size_t i) { return relative * want[i]; });
      if (normalizes && chosen == 1) CHECK(route.gates[0] == 1.0F);
    }
  }
}

TEST_CASE("given route: used with gates of the row's own logits, while the own choice is also returned") {
  const std::vector<float> logits{0.1F, 0.9F, -0.4F, 0.3F};
  for (const bool normalizes : {false, true}) {
    const Route route = route_of({4, 2, normalizes}, logits, {2, 0});
    CHECK(route.own == std::vector<std::uint8_t>{1, 3});
    CHECK(route.used == std::vector<std::uint8_t>{0, 2});
    const std::vector<double> want = gates_in_fp64(logits, {0, 2}, normalizes);
    test::check_close(route.gates, want, [&](std::size_t i) { return 30 * 0x1p-24 * want[i]; });
  }
  CHECK_THROWS_AS(route_of({4, 2, true}, logits, {1, 1}), base::Error);
  CHECK_THROWS_AS(route_of({4, 2, true}, logits, {1, 4}), base::Error);
}

TEST_CASE("given route: far below the row's largest logit, gates and gradients are exact") {
  for (const float distance : {30.0F, 95.0F, 104.0F, 1e4F, 3e38F}) {  // exp(-104) is 0 in fp32, exp(-95) has 4 bits
    CAPTURE(distance);
    const std::vector<float> logits{0.25F - distance, distance > 1e5F ? 0.0F : 1.0F, -distance, -0.5F - distance};
    const std::vector<std::uint8_t> given{0, 2, 3};
    const Router router{4, 3, true};
    const Route route = route_of(router, logits, given);
    CHECK(route.own.front() == 0);
    double total = 0;
    for (const std::uint8_t expert : given) total += std::exp(static_cast<double>(logits[expert]) - logits[0]);
    std::vector<double> want;
    for (const std::uint8_t expert : given)
      want.push_back(std::exp(static_cast<double>(logits[expert]) - logits[0]) / total);
    test::check_close(route.gates, want, [&](std::size_t i) { return 30 * 0x1p-24 * want[i]; });

    const std::vector<float> d_gates{1.0F, -2.0F, 0.5F};
    std::vector<float> got(4);
    ops::gate_gradients(router, logits.data(), route.used.data(), route.gates.data(), d_gates.data(), got.data());
    double mean = 0;
    for (std::size_t i = 0; i < 3; ++i) mean += want[i] * d_gates[i];
    std::vector<double> d_want(4);
    for (std::size_t i = 0; i < 3; ++i) d_want[given[i]] = want[i] * (d_gates[i] - mean);
    test::check_close(got, d_want, [](std::size_t) { return 1e-6; });
  }
}

TEST_CASE("routing: non-finite logits make the row NaN") {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (std::size_t at = 0; at < 4; ++at) {
      std::vector<float> logits{0.1F, 0.9F, -0.4F, 0.3F};
      logits[at] = bad;
      const Route route = route_of({4, 2, true}, logits);
      CHECK_FALSE(route.is_finite);
      CHECK(route.used == std::vector<std::uint8_t>{0, 1});
      CHECK(std::isnan(route.gates[0]));
      CHECK(std::isnan(route.gates[1]));
    }
  }
}

TEST_CASE("gates: gradient equals differences in fp64") {
  constexpr std::int64_t kCount = 7;
  const std::vector<float> logits = test::normal_values(kCount, 1.5F, 8), d_gates = test::normal_values(3, 1.0F, 9);
  for (const bool normalizes : {true, false}) {
    for (const std::vector<std::uint8_t>& given : {std::vector<std::uint8_t>{}, std::vector<std::uint8_t>{0, 3, 6}}) {
      const Router router{kCount, 3, normalizes};
      const Route route = route_of(router, logits, given);
      std::vector<float> got(kCount);
      ops::gate_gradients(router, logits.data(), route.used.data(), route.gates.data(), d_gates.data(), got.data());
      std::vector<double> want;
      for (std::size_t j = 0; j < kCount; ++j) {
        const auto value = [&](float step) {
          std::vector<float> moved = logits;
          moved[j] += step;
          const std::vector<double> gates = gates_in_fp64(moved, route.used, normalizes);
          double sum = 0;
          for (std::size_t i = 0; i < 3; ++i) sum += gates[i] * d_gates[i];
          return sum;
        };
        const float step = 0x1p-10F;
        const float above = logits[j] + step, below = logits[j] - step;
        want.push_back((value(step) - value(-step)) / (static_cast<double>(above) - below));
      }
      test::check_close(got, want, [](std::size_t) { return 1e-6; });
    }
  }
}

TEST_CASE("rows of a mixture: sorted by expert, then by row") {
  const Mixture mixture(Format::f32);
  const ExpertRows& rows = mixture.rows;
  REQUIRE(rows.starts.size() == 6);
  CHECK(rows.starts.front() == 0);
  CHECK(rows.starts.back() == Mixture::kRows * 3);
  CHECK(rows.starts[1] == rows.starts[2]);  // expert 1 has none
  for (std::size_t expert = 0; expert < 5; ++expert) {
    for (std::int32_t place = rows.starts[expert]; place < rows.starts[expert + 1]; ++place) {
      const auto row = static_cast<std::size_t>(rows.row_of[static_cast<std::size_t>(place)]);
      if (place > rows.starts[expert])
        CHECK(rows.row_of[static_cast<std::size_t>(place) - 1] < static_cast<std::int32_t>(row));
      int found = 0;
      for (std::size_t e = 0; e < 3; ++e) {
        if (rows.place_of[row * 3 + e] != place) continue;
        CHECK(rows.experts[row * 3 + e] == expert);
        ++found;
      }
      CHECK(found == 1);
    }
  }
}

TEST_CASE("expert product: bits equal those of its rows alone, for any team") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const Format format = GENERATE(from_range(formats_of_experts()));
  CAPTURE(path.name(), name(format));
  const Mixture mixture(format);
  const std::vector<float> y = product_of(mixture, format, nullptr, 1);
  for (std::size_t expert = 0; expert < 5; ++expert) {
    for (std::int32_t place = mixture.rows.starts[expert]; place < mixture.rows.starts[expert + 1]; ++place) {
      const std::vector<float> want =
          product_alone(mixture, format, mixture.rows.row_of[static_cast<std::size_t>(place)], expert);
      const float* got = y.data() + place * Mixture::kOut;
      test::check_same_bits({got, got + Mixture::kOut}, want);
    }
  }
  for (const int num_threads : {2, 3, 4}) test::check_same_bits(product_of(mixture, format, nullptr, num_threads), y);
}

TEST_CASE("expert product: equals that of its quantized operands in fp64") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const Format format = GENERATE(from_range(formats_of_experts()));
  CAPTURE(path.name(), name(format));
  const Mixture mixture(format);
  const std::vector<float> y = product_of(mixture, format, nullptr, 2);
  const std::vector<float> x = test::dequantized(mixture.quantized(format), Mixture::kRows);
  for (std::size_t expert = 0; expert < 5; ++expert) {
    std::vector<float> w(static_cast<std::size_t>(Mixture::kOut * Mixture::kIn));
    ops::unpack_rows(mixture.packed[expert], 0, Mixture::kOut, w.data());
    for (std::int32_t place = mixture.rows.starts[expert]; place < mixture.rows.starts[expert + 1]; ++place) {
      const float* row = x.data() + mixture.rows.row_of[static_cast<std::size_t>(place)] * Mixture::kIn;
      std::vector<double> want, magnitude;
      for (std::int64_t column = 0; column < Mixture::kOut; ++column) {
        double sum = 0, absolute = 0;
        for (std::int64_t i = 0; i < Mixture::kIn; ++i) {
          const double term = static_cast<double>(row[i]) * w[static_cast<std::size_t>(column * Mixture::kIn + i)];
          sum += term;
          absolute += std::fabs(term);
        }
        want.push_back(sum);
        magnitude.push_back(absolute);
      }
      const float* got = y.data() + place * Mixture::kOut;
      test::check_close({got, got + Mixture::kOut}, want,
                        [&](std::size_t i) { return (Mixture::kIn + 4) * 0x1p-24 * magnitude[i]; });
    }
  }
}

TEST_CASE("experts of different formats: each reads rows of its own format") {
  const Mixture mixture(Format::int8, Format::bf16, true);
  const Activations wide = mixture.quantized(Format::bf16);
  const std::vector<float> y = product_of(mixture, Format::int8, &wide, 3);
  for (std::size_t expert = 0; expert < 5; ++expert) {
    for (std::int32_t place = mixture.rows.starts[expert]; place < mixture.rows.starts[expert + 1]; ++place) {
      const std::vector<float> want = product_alone(mixture, expert == 3 ? Format::bf16 : Format::int8,
                                                    mixture.rows.row_of[static_cast<std::size_t>(place)], expert);
      const float* got = y.data() + place * Mixture::kOut;
      test::check_same_bits({got, got + Mixture::kOut}, want);
    }
  }
}

TEST_CASE("expert sum: a row adds rounded products by ascending expert index, once to the residual") {
  constexpr std::int64_t kWidth = 1100;
  const Mixture mixture(Format::f32);
  const auto pairs = static_cast<std::int64_t>(mixture.rows.row_of.size());
  const std::vector<float> z = test::normal_values(pairs * kWidth, 1.0F, 5);
  const std::vector<float> x = test::normal_values(Mixture::kRows * kWidth, 1.0F, 6);
  for (const base::Range which : {base::Range{0, Mixture::kRows}, base::Range{7, 9}}) {
    std::vector<float> want = x;
    for (std::int64_t row = which.begin; row < which.end; ++row) {
      for (std::int64_t i = 0; i < kWidth; ++i) {
        float branch = 0;
        for (std::int64_t e = 0; e < 3; ++e) {
          const auto pair = static_cast<std::size_t>(row * 3 + e);
          const volatile float part =
              mixture.rows.gates[pair] * z[static_cast<std::size_t>(mixture.rows.place_of[pair] * kWidth + i)];
          branch = e == 0 ? part : branch + part;
        }
        want[static_cast<std::size_t>(row * kWidth + i)] += branch;
      }
    }
    for (const int num_threads : {1, 3, 4}) {
      std::vector<float> got = x;
      base::parallel(num_threads, [&](base::Team& team) {
        ops::add_experts(team, z.data(), mixture.rows, which, kWidth, got.data());
      });
      test::check_same_bits(got, want);
    }
  }
}
