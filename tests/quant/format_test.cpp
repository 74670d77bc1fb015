#include "quant/format.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "quant/checksums.h"
#include "support/catch.h"

using namespace qrl;
using quant::Format;
using test::checksums;

namespace {

nlohmann::json golden() {
  std::ifstream file(test::shipped_data() / "golden" / "quant" / "int8.json");
  REQUIRE(file.good());
  return nlohmann::json::parse(file);
}

float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

struct Encoded {
  float scale;
  std::vector<std::int8_t> quantized;
};
Encoded quantize(const std::vector<float>& values) {
  Encoded out{0, std::vector<std::int8_t>(values.size(), 77)};
  out.scale = quant::quantize_int8(values, out.quantized);
  return out;
}

}  // namespace

TEST_CASE("formats: each has a unique name") {
  std::set<std::string_view> names;
  for (int i = 0; i < quant::kNumFormats; ++i) names.insert(quant::name(static_cast<Format>(i)));
  CHECK(names.size() == quant::kNumFormats);
}

TEST_CASE("formats: weights and activations of every scaled format equal numpy's, bit for bit") {
  std::ifstream file(test::shipped_data() / "golden" / "quant" / "formats.json");
  REQUIRE(file.good());
  const nlohmann::json golden = nlohmann::json::parse(file);
  const auto inputs = golden["inputs"].get<std::int64_t>();
  const auto floats = [&](const nlohmann::json& bits) {
    std::vector<float> values;
    for (const std::uint32_t one : bits) values.push_back(from_bits(one));
    return values;
  };
  const std::vector<float> weights = floats(golden["weights"]), tokens = floats(golden["tokens"]);
  int found = 0;
  for (int i = 0; i < quant::kNumFormats; ++i) {
    const auto format = static_cast<Format>(i);
    if (!golden["formats"].contains(std::string(name(format)))) continue;
    ++found;
    CAPTURE(name(format));
    const nlohmann::json& want = golden["formats"][std::string(name(format))];
    std::vector<float> rounded(weights.size());
    quant::round_weights(format, weights, inputs, rounded);
    CHECK(checksums(rounded, inputs) == want["weights"]);
    std::vector<float> all;
    for (std::size_t at = 0; at < tokens.size(); at += static_cast<std::size_t>(inputs)) {
      std::vector<float> row(static_cast<std::size_t>(inputs));
      quant::round_activations(format, {tokens.data() + at, row.size()}, row);
      all.insert(all.end(), row.begin(), row.end());
    }
    CHECK(checksums(all, inputs) == want["tokens"]);
  }
  CHECK(found == 13);
  for (const Format format : {Format::int4, Format::int4_g64, Format::int4_g32}) {
    CAPTURE(name(format));
    std::vector<float> rounded(weights.size());
    quant::round_weights(format, weights, inputs, rounded, {}, quant::ScaleRule::least_squares);
    CHECK(checksums(rounded, inputs) == golden["least_squares"][std::string(name(format))]);
  }
}

TEST_CASE("least squares: scale of a group, lowers the error and ignores extreme magnitudes") {
  const auto error = [](const std::vector<float>& values, const std::vector<float>& rounded) {
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) sum += std::pow(double{values[i]} - rounded[i], 2);
    return sum;
  };
  int num_lower = 0;
  for (int seed = 0; seed < 40; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    std::normal_distribution<float> normal(0, 0.05F);
    std::vector<float> values(32), largest(32), searched(32);
    for (float& value : values) value = normal(random);
    quant::round_weights(Format::int4_g32, values, 32, largest);
    quant::round_weights(Format::int4_g32, values, 32, searched, {}, quant::ScaleRule::least_squares);
    CHECK(error(values, searched) <= error(values, largest) * (1 + 1e-5));
    num_lower += error(values, searched) < error(values, largest) * 0.99 ? 1 : 0;
  }
  CHECK(num_lower > 10);
  for (const float size : {0.0F, 1e-40F, 1e-30F, 3e38F}) {
    std::vector<float> values(32, size), largest(32), searched(32);
    values[3] = -size / 3;
    quant::round_weights(Format::int4_g32, values, 32, largest);
    quant::round_weights(Format::int4_g32, values, 32, searched, {}, quant::ScaleRule::least_squares);
    CHECK(searched == largest);
  }
}

TEST_CASE("int8: values and scales equal numpy's, including ties and extremes") {
  const nlohmann::json cases = golden()["cases"];
  REQUIRE(cases.size() == 9);
  for (const auto& row : cases) {
    std::vector<float> values;
    for (const std::uint32_t bits : row["bits"]) values.push_back(from_bits(bits));
    const Encoded got = quantize(values);
    CHECK(std::bit_cast<std::uint32_t>(got.scale) == row["scale_bits"].get<std::uint32_t>());
    const auto want = row["codes"].get<std::vector<std::int8_t>>();
    CHECK(got.quantized == want);
  }
}

TEST_CASE("int8: values of every finite bf16 number equal numpy's") {
  const nlohmann::json rows = golden()["all_bf16"];
  REQUIRE(rows.size() == 254);  // 256 neighbors each; all rows except the two with infinity and NaN
  for (const auto& row : rows) {
    std::vector<float> values;
    for (std::uint32_t low = 0; low < 256; ++low) {
      values.push_back(from_bits((row["high"].get<std::uint32_t>() * 256 + low) << 16));
    }
    const Encoded got = quantize(values);
    std::int64_t weighted = 0;
    for (std::size_t i = 0; i < values.size(); ++i) weighted += static_cast<std::int64_t>(i + 1) * got.quantized[i];
    CAPTURE(row["high"].get<int>());
    CHECK(std::bit_cast<std::uint32_t>(got.scale) == row["scale_bits"].get<std::uint32_t>());
    CHECK(weighted == row["weighted_sum"].get<std::int64_t>());
  }
}

TEST_CASE("int8: non-finite rows get a NaN scale, zero rows scale zero") {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const Encoded got = quantize({1.0F, -bad, 2.0F});
    CHECK(std::isnan(got.scale));
  }
  const Encoded zero = quantize({0.0F, -0.0F});
  CHECK(zero.scale == 0.0F);
  CHECK(zero.quantized == std::vector<std::int8_t>{0, 0});
}

TEST_CASE("int8: a round trip is within half a step, and encoding again changes nothing") {
  base::RandomStream random(2, base::RandomPurpose::test, 0);
  std::vector<float> values(257);
  for (float& value : values) value = random.normal();
  const Encoded first = quantize(values);
  std::vector<float> dequantized(values.size());
  quant::dequantize_int8(first.quantized, first.scale, dequantized);
  for (std::size_t i = 0; i < values.size(); ++i) {
    // Half a step, and the rounding of the quotient and of the product: 127 · 2⁻²⁴ of a step each.
    CHECK(std::fabs(dequantized[i] - values[i]) <= (0.5F + 254 * 0x1p-24F) * first.scale);
  }
  CHECK(quantize(dequantized).quantized == first.quantized);
}

TEST_CASE("format errors: equal those of hand-made vectors") {
  const std::vector<float> original{3, 4, 0}, dequantized{3, 4, 5};
  const quant::FormatError error = quant::format_error(original, dequantized);
  CHECK(error.max_abs == 5);
  CHECK(test::close(error.rms, std::sqrt(25.0 / 3), 0, 1e-15));
  CHECK(error.snr_db == 0);
  CHECK(test::close(error.cosine, 25.0 / (5.0 * std::sqrt(50.0)), 0, 1e-15));
  const quant::FormatError none = quant::format_error(original, original);
  CHECK(none.max_abs == 0);
  CHECK(std::isinf(none.snr_db));
  CHECK(none.cosine == 1);
  CHECK(std::isnan(quant::format_error(original, std::vector<float>{3, std::nanf(""), 0}).max_abs));
  CHECK_THROWS_AS(quant::format_error(original, std::vector<float>{1}), base::Error);
}

TEST_CASE("int8: a normal row's signal is 40 dB above its error") {
  // Uniform error of a step amax/127 with amax near 3.3 σ: 10·log10(12·127²/3.3²) = 42.5 dB.
  base::RandomStream random(2, base::RandomPurpose::test, 1);
  std::vector<float> values(768), dequantized(768);
  for (float& value : values) value = random.normal();
  const Encoded got = quantize(values);
  quant::dequantize_int8(got.quantized, got.scale, dequantized);
  const quant::FormatError error = quant::format_error(values, dequantized);
  CHECK(error.snr_db > 40);
  CHECK(error.snr_db < 46);
  CHECK(error.cosine > 0.9999);
}
