#include "compare/statistics.h"

#include <cmath>
#include <map>

#include "base/rng.h"
#include "state/json.h"
#include "support/catch.h"
#include "support/files.h"

using namespace qrl;
using namespace qrl::compare;

namespace {

nlohmann::json golden() {
  return state::parse_json(test::read_file(QRL_SOURCE_DIR "/tests/compare/golden/statistics.json"), "statistics.json");
}

void check_close(double got, const nlohmann::json& wanted, double tolerance) {
  CHECK(std::abs(got - wanted.get<double>()) <= tolerance * std::max(1.0, std::abs(wanted.get<double>())));
}

/// Returns normal differences with a mean of `effect` deviations.
std::vector<double> draw(std::size_t count, double effect, std::uint64_t sample) {
  base::RandomStream stream(7, base::RandomPurpose::test, sample);
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(effect + stream.normal());
  return values;
}

}  // namespace

TEST_CASE("sign-flip tests, t tests, intervals: equal scipy's on the same differences") {
  for (const auto& row : golden().at("samples")) {
    const std::vector<double> differences = row.at("differences");
    INFO(row.dump());
    const SignFlips flips(differences);
    check_close(flips.p_two_sided(), row.at("p_two_sided"), 1e-12);
    check_close(flips.p_above(-0.8), row.at("p_above"), 1e-12);
    check_close(flips.p_below(0.8), row.at("p_below"), 1e-12);
    check_close(flips.p_within(0.8), row.at("p_within"), 1e-12);
    check_close(t_test(differences), row.at("p_t"), 1e-10);
    const Interval t = t_interval(differences, 0.95);
    check_close(t.low, row.at("t_low"), 1e-9);
    check_close(t.high, row.at("t_high"), 1e-9);
  }
}

TEST_CASE("interval: contains exactly the centers accepted by the two-sided sign-flip test") {
  for (std::uint64_t sample = 0; sample < 30; ++sample) {
    const std::vector<double> differences = draw(6 + sample % 7, 0.5, sample);
    const SignFlips flips(differences);
    const Interval interval = flips.interval(0.95);
    const double step = 1e-6;
    CHECK(flips.p_two_sided(interval.low + step) > 0.05);
    CHECK(flips.p_two_sided(interval.low - step) <= 0.05);
    CHECK(flips.p_two_sided(interval.high - step) > 0.05);
    CHECK(flips.p_two_sided(interval.high + step) <= 0.05);
  }
}

TEST_CASE("zero differences: p is 1 and the interval is zero") {
  const std::vector<double> zeros(8, 0.0);
  const SignFlips flips(zeros);
  CHECK(flips.p_two_sided() == 1);
  CHECK(flips.interval(0.95).low == 0);
  CHECK(flips.interval(0.95).high == 0);
  CHECK(flips.p_within(0.1) == 2.0 / 512);
  CHECK(t_test(zeros) == 1);
}

TEST_CASE("sign-flip test: differences equal up to rounding are ties") {
  // Tenths have no exact sums in fp64, integers have.
  const std::vector<double> tenths = {0.1, 0.2, 0.3, 0.7, 0.1, 0.2, 0.3}, integers = {1, 2, 3, 7, 1, 2, 3};
  for (int center = 1; center <= 3; ++center) {
    CHECK(SignFlips(tenths).p_above(0.1 * center) == SignFlips(integers).p_above(center));
    CHECK(SignFlips(tenths).p_below(0.1 * center) == SignFlips(integers).p_below(center));
  }
}

TEST_CASE("Holm's p-values, detectable effect: equal statsmodels'") {
  const nlohmann::json json = golden();
  for (const auto& row : json.at("holm")) {
    const std::vector<double> adjusted = holm(row.at("p").get<std::vector<double>>());
    for (std::size_t i = 0; i < adjusted.size(); ++i) check_close(adjusted[i], row.at("adjusted").at(i), 1e-12);
  }
  for (const auto& row : json.at("effects"))
    check_close(detectable_effect(row.at("n"), row.at("alpha"), row.at("power")), row.at("effect"), 1e-4);
  CHECK(attained_level(6, 0.05) == 2.0 / 64);
  CHECK(attained_level(8, 0.05) == 12.0 / 256);
  CHECK(std::isinf(detectable_effect(6, attained_level(6, 0.05 / 4), 0.8)));
}

TEST_CASE("simulated effects: rejected and found equal at the rates of scipy's tests") {
  for (const auto& row : golden().at("rates")) {
    const std::size_t count = row.at("n");
    const double effect = row.at("effect");
    int rejected = 0, equal = 0;
    for (std::uint64_t sample = 0; sample < 1000; ++sample) {
      const std::vector<double> differences = draw(count, effect, sample * 100 + count);
      const SignFlips flips(differences);
      rejected += flips.p_two_sided() <= 0.05;
      equal += flips.p_within(1.0) <= 0.05;
    }
    INFO("n " << count << ", effect " << effect);
    CHECK(std::abs(rejected / 1000.0 - row.at("rejected").get<double>()) <= 0.03);
    CHECK(std::abs(equal / 1000.0 - row.at("equal").get<double>()) <= 0.03);
  }
}
