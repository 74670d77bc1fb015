// Tests rows and weights that are rotated in blocks before quantization (quant/rotation.h).
#include <cstring>
#include <limits>

#include "ops/kernels/kernels.h"
#include "ops/reference.h"
#include "quant/rotation_golden.h"

using namespace qrl;
using ops::Activations;
using ops::PackedLinear;
using quant::Format;
using quant::Rotation;

namespace {

std::vector<Format> scaled_formats() {
  std::vector<Format> formats;
  for (int i = 0; i < quant::kNumFormats; ++i) {
    if (quant::spec(static_cast<Format>(i)).has_weight_scales()) formats.push_back(static_cast<Format>(i));
  }
  return formats;
}

/// Returns rows of `width`, each rotated by the reference.
std::vector<float> rotated_rows(std::vector<float> rows, const Rotation& rotation, std::int64_t width) {
  for (std::size_t at = 0; at < rows.size(); at += static_cast<std::size_t>(width))
    quant::rotate(rotation, std::span(rows).subspan(at, static_cast<std::size_t>(width)));
  return rows;
}

PackedLinear rotated_layer(const std::vector<float>& weight, std::int64_t in, Format format, const Rotation& rotation) {
  PackedLinear layer = ops::make_packed_linear(format, std::ssize(weight) / in, in, false);
  layer.rotation = rotation;
  base::Team team = base::Team::solo();
  REQUIRE(ops::pack_rows(team, weight.data(), layer.out, 0, layer));
  return layer;
}

Activations rotated_input(const std::vector<float>& x, const PackedLinear& layer) {
  Activations input(layer, std::ssize(x) / layer.in);
  base::Team team = base::Team::solo();
  ops::quantize(team, x.data(), {0, input.max_rows()}, input);
  return input;
}

/// Returns normal values with outliers a hundred times larger in a few channels, as in real models.
std::vector<float> with_outliers(std::int64_t rows, std::int64_t width) {
  std::vector<float> x = test::normal_values(rows * width, 1.0F, 5);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (const std::int64_t channel : {width / 7, width / 2}) x[static_cast<std::size_t>(row * width + channel)] *= 100;
  }
  return x;
}

std::vector<float> product_of(const Activations& input, const PackedLinear& layer) {
  std::vector<float> y(static_cast<std::size_t>(input.max_rows() * layer.out), -77.0F);
  base::Team team = base::Team::solo();
  ops::linear(team, input, layer, {0, input.max_rows()}, false, y.data());
  return y;
}

/// Returns ‖got − x·Wᵀ‖ / ‖x·Wᵀ‖ in fp64.
double distance(const std::vector<float>& got, const std::vector<float>& x, const std::vector<float>& w,
                std::int64_t in) {
  const std::int64_t rows = std::ssize(x) / in, out = std::ssize(w) / in;
  double missed = 0, whole = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t o = 0; o < out; ++o) {
      double sum = 0;
      for (std::int64_t k = 0; k < in; ++k)
        sum += static_cast<double>(x[static_cast<std::size_t>(row * in + k)]) * w[static_cast<std::size_t>(o * in + k)];
      missed += std::pow(got[static_cast<std::size_t>(row * out + o)] - sum, 2);
      whole += sum * sum;
    }
  }
  return std::sqrt(missed / whole);
}

}  // namespace

TEST_CASE("rotation: a row has the reference's bits on every path, also in place") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const Rotation rotation{GENERATE(from_range(quant::kRotationBlocks))};
  const std::int64_t width = 3 * 128;
  CAPTURE(path.name(), rotation.block);
  for (const float sigma : {1.0F, 1e-40F, 1e36F}) {
    const std::vector<float> x = test::normal_values(width, sigma, 3), want = rotated_rows(x, rotation, width);
    std::vector<float> got(x.size()), in_place = x;
    const float amax = ops::kernels().rotate({x.data(), width, rotation.block, scale_of(rotation), got.data()});
    test::check_same_bits(got, want);
    CHECK(amax == ops::kernels().max_abs(want.data(), width));
    ops::rotate_rows(rotation, 3, 128, in_place.data());
    test::check_same_bits(in_place, want);
  }
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> x = test::normal_values(width, 1, 3), got(x.size());
    x[200] = bad;
    CHECK_FALSE(std::isfinite(ops::kernels().rotate({x.data(), width, rotation.block, 1, got.data()})));
    CHECK(std::count_if(got.begin(), got.end(), [](float v) { return std::isfinite(v); }) == width - rotation.block);
  }
}

TEST_CASE("int8 rotation: weights, rows and their product equal numpy's") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const std::int64_t block = GENERATE(from_range(quant::kRotationBlocks));
  CAPTURE(path.name(), block);
  const test::RotationGolden golden;
  const PackedLinear layer = rotated_layer(golden.weights, golden.inputs, Format::int8, {block});
  const Activations input = rotated_input(golden.tokens, layer);
  std::vector<float> stored(golden.weights.size());
  ops::unpack_rows(layer, 0, layer.out, stored.data());
  CHECK(test::checksums(stored, golden.inputs) == golden.of(block).at("int8_weights"));
  const std::vector<float> rows = test::dequantized(input, input.max_rows());
  CHECK(test::checksums(rows, golden.inputs) == golden.of(block).at("int8_tokens"));
  const auto want = golden.of(block).at("products").get<std::vector<double>>();
  // The bound of linear: (terms + 4)·2⁻²⁴·Σ|x·w|.
  test::check_close(product_of(input, layer), want, [&](std::size_t i) {
    const std::size_t row = i / static_cast<std::size_t>(layer.out), o = i % static_cast<std::size_t>(layer.out);
    double magnitude = 0;
    for (std::int64_t k = 0; k < golden.inputs; ++k)
      magnitude += std::fabs(static_cast<double>(rows[row * static_cast<std::size_t>(golden.inputs) + k]) *
                             stored[o * static_cast<std::size_t>(golden.inputs) + k]);
    return (static_cast<double>(golden.inputs) + 4) * 0x1p-24 * magnitude;
  });
}

TEST_CASE("rotation: every format quantizes rotated rows and weights as its reference codec") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const Format format = GENERATE(from_range(scaled_formats()));
  const Rotation rotation{GENERATE(from_range(quant::kRotationBlocks))};
  CAPTURE(path.name(), name(format), rotation.block);
  constexpr std::int64_t kIn = 384, kOut = 300, kRows = 5;  // scales of 128 outputs, the last ones ragged
  const std::vector<float> w = test::normal_values(kOut * kIn, 0.05F, 1), x = with_outliers(kRows, kIn);
  const PackedLinear layer = rotated_layer(w, kIn, format, rotation);
  std::vector<float> stored(w.size()), want(w.size());
  ops::unpack_rows(layer, 0, kOut, stored.data());
  quant::round_weights(format, rotated_rows(w, rotation, kIn), kIn, want);
  test::check_same_bits(stored, want);

  const Activations input = rotated_input(x, layer);
  const std::vector<float> rotated = rotated_rows(x, rotation, kIn), got = test::dequantized(input, kRows);
  for (std::int64_t row = 0; row < kRows; ++row) {
    std::vector<float> rounded(static_cast<std::size_t>(kIn));
    quant::round_activations(format, std::span(rotated).subspan(static_cast<std::size_t>(row * kIn), kIn), rounded);
    CHECK(std::equal(rounded.begin(), rounded.end(), got.begin() + row * kIn));
  }
  // Packing by several members of a team gives the same bits as by one.
  PackedLinear by_three = ops::make_packed_linear(format, kOut, kIn, false);
  by_three.rotation = rotation;
  base::parallel(3, [&](base::Team& team) { ops::pack_rows(team, w.data(), kOut, 0, by_three); });
  CHECK(std::memcmp(by_three.panels.view().data, layer.panels.view().data, layer.panels.num_bytes()) == 0);
}

TEST_CASE("rotated int8 product: equals the layer, with at most a quarter of the error for outliers") {
  // The widths of real models: SmolLM2, Qwen2.5-Coder-0.5B, 86M, Llama 8B, and their MLPs.
  const std::int64_t in = GENERATE(576, 896, 1536, 4096, 4864, 12288);
  CAPTURE(in);
  const std::vector<float> w = test::normal_values(40 * in, 0.05F, 1), x = with_outliers(7, in);
  const auto error = [&](Format format, const Rotation& rotation) {
    const PackedLinear layer = rotated_layer(w, in, format, rotation);
    return distance(product_of(rotated_input(x, layer), layer), x, w, in);
  };
  const double plain = error(Format::int8, {}), rotated = error(Format::int8, {64});
  // In a row whose largest number is a hundred times the others, the int8 step is about as large as the others.
  CHECK(plain > 0.02);
  CHECK(rotated < plain / 4);
  CHECK(rotated < 0.03);
  CHECK(error(Format::int4_int8, {64}) < error(Format::int4_int8, {}) + 0.01);
  CHECK(error(Format::fp8_channel, {64}) < 0.04);
}

TEST_CASE("rotation: only one rotated operand, or a width of partial blocks, is an internal error") {
  const std::vector<float> w = test::normal_values(10 * 96, 0.05F, 1), x = test::normal_values(96, 1, 2);
  const PackedLinear rotated = rotated_layer(w, 96, Format::int8, {32}), plain = rotated_layer(w, 96, Format::int8, {});
  CHECK_THROWS_AS(product_of(rotated_input(x, plain), rotated), base::Error);
  CHECK_THROWS_AS(product_of(rotated_input(x, rotated), plain), base::Error);
  CHECK_THROWS_AS(Activations(Format::int8, 1, 96, {64}), base::Error);
  PackedLinear unfit = ops::make_packed_linear(Format::int8, 10, 96, false);
  unfit.rotation = {64};
  base::Team team = base::Team::solo();
  CHECK_THROWS_AS(ops::pack_rows(team, w.data(), 10, 0, unfit), base::Error);
}
