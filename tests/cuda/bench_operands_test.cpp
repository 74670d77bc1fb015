// Operands of benchmarks: numbers as real ones are, the same each time.
#include "cuda/bench/bench_operands.h"

#include <cmath>

#include "cuda/bench/bench_kernels.h"
#include "cuda/bench/best_of_rounds.h"
#include "cuda/quantize/quantize_weights.h"
#include "device.h"

namespace {

using namespace qrl;
using namespace qrl::cuda;
using namespace qrl::cuda::test;
using quant::Element;
using quant::Format;
using quant::KvFormat;

struct Moments {
  double mean = 0, variance = 0, largest = 0;
  bool finite = true;
};
Moments moments(const std::vector<float>& values) {
  Moments found;
  const auto count = static_cast<double>(values.size());
  for (const float value : values) {
    found.finite = found.finite && std::isfinite(value);
    found.mean += value / count;
    found.largest = std::max(found.largest, std::fabs(static_cast<double>(value)));
  }
  for (const float value : values) found.variance += (value - found.mean) * (value - found.mean) / count;
  return found;
}

std::size_t element_bytes(Element element) { return element == Element::f32 ? 4 : element == Element::bf16 ? 2 : 1; }

/// The numbers that fill_normal leaves.
std::vector<float> normal_numbers(Element element, float sigma, std::uint64_t seed, std::size_t count) {
  const OnDevice<std::uint8_t> to(count * element_bytes(element));
  const target::Stream stream;
  target::fill_normal({element, sigma, seed, static_cast<std::int64_t>(count), to.data()}, stream);
  stream.wait();
  const std::vector<std::uint8_t> bytes = to.read();
  std::vector<float> numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t* at = bytes.data() + i * element_bytes(element);
    std::uint32_t bits = 0;
    std::memcpy(&bits, at, element_bytes(element));
    numbers[i] = element == Element::f32    ? float_of(bits)
                 : element == Element::bf16 ? float_of_bf16(static_cast<std::uint16_t>(bits))
                 : element == Element::int8 ? static_cast<float>(static_cast<std::int8_t>(*at))
                                            : float_of_fp8(*at);
  }
  return numbers;
}

TEST_CASE("normal values made on the device: finite, mean 0, variance 1, normal tails, no two neighbors alike") {
  if (!find_device()) return;
  constexpr std::size_t kCount = 200'003;
  const auto count = static_cast<double>(kCount);
  for (const Element element : {Element::f32, Element::bf16, Element::int8, Element::fp8_e4m3}) {
    const float sigma = element == Element::int8 ? 40.0F : element == Element::fp8_e4m3 ? 80.0F : 1.0F;
    INFO("element " << static_cast<int>(element));
    const std::vector<float> values = normal_numbers(element, sigma, 7, kCount);
    const Moments found = moments(values);
    CHECK(found.finite);
    // Five standard errors: of the mean 1/sqrt(n), of the variance sqrt(2/n).
    CHECK(std::fabs(found.mean) < 5 * sigma / std::sqrt(count));
    CHECK(std::fabs(found.variance / (sigma * sigma) - 1) < 5 * std::sqrt(2 / count) + (sigma > 1 ? 1e-2 : 1e-4));
    const auto share = [&](double from) {
      return static_cast<double>(std::ranges::count_if(values, [&](float v) { return std::fabs(v) > from * sigma; })) /
             count;
    };
    for (const double from : {1.0, 2.0, 3.0}) {
      const double want = std::erfc(from / std::sqrt(2.0));
      // int8 and e4m3 have few numbers: a step of them next to the bound counts on one side of it.
      CHECK(std::fabs(share(from) - want) < 5 * std::sqrt(want / count) + (sigma > 1 ? 0.06 * want + 0.01 : 1e-2));
    }
    double product = 0;
    for (std::size_t i = 0; i + 1 < kCount; ++i) product += static_cast<double>(values[i]) * values[i + 1] / count;
    CHECK(std::fabs(product) < 5 * sigma * sigma / std::sqrt(count));
  }
}

TEST_CASE("normal values are the same each time, whatever the count, and others for another seed") {
  if (!find_device()) return;
  in_both_orders([] {
    const std::vector<float> all = normal_numbers(Element::f32, 1, 3, 9000),
                             again = normal_numbers(Element::f32, 1, 3, 9000),
                             fewer = normal_numbers(Element::f32, 1, 3, 5000),
                             other = normal_numbers(Element::f32, 1, 4, 9000);
    CHECK(all == again);
    CHECK(std::equal(fewer.begin(), fewer.end(), all.begin()));
    std::size_t same = 0;
    for (std::size_t i = 0; i < all.size(); ++i) same += all[i] == other[i] ? 1 : 0;
    CHECK(same < 10);
  });
}

TEST_CASE("the kernel of the read ceiling reads every word once, whatever the size") {
  if (!find_device()) return;
  for (const std::size_t count : {4, 1024, 32'768, 32'772, 100'000}) {
    std::vector<std::uint32_t> words(count);
    std::uint32_t want = 0;
    for (std::size_t i = 0; i < count; ++i) want += words[i] = static_cast<std::uint32_t>(i + 1) * 2654435761U;
    const auto num_bytes = static_cast<std::int64_t>(4 * count);
    const OnDevice<std::uint32_t> from(words),
        sums(std::vector<std::uint32_t>(static_cast<std::size_t>(target::num_read_sums(num_bytes)), 77));
    const target::Stream stream;
    target::read_once({from.data(), num_bytes, sums.data()}, stream);
    stream.wait();
    std::uint32_t got = 0;
    for (const std::uint32_t sum : sums.read()) got += sum;
    INFO(count << " words");
    CHECK(got == want);
  }
}

TEST_CASE("a benchmark's calls are launched by a graph: the host makes each twice, whatever the rounds") {
  if (!find_device()) return;
  const target::Stream stream;
  const OnDevice<std::uint32_t> values(std::vector<std::uint32_t>(4, 7));
  int num_made = 0;
  const double seconds = target::best_s(3, stream, [&](std::int64_t i) {
    ++num_made;
    target::fill_zero(values.data() + i, sizeof(std::uint32_t), stream);
  });
  CHECK(num_made == 2 * 3);
  CHECK(seconds > 0);
  CHECK(values.read() == std::vector<std::uint32_t>{0, 0, 0, 7});
}

TEST_CASE("a benchmark's weights and rows are quantized normal values in every format") {
  if (!find_device()) return;
  constexpr std::int64_t kOut = 200, kIn = 300, kRows = 9;
  const target::Stream stream;
  for (const Format format : kWeightFormats) {
    INFO(quant::name(format));
    const quant::FormatSpec& what = quant::spec(format);
    const MatrixLayout at = matrix_layout(format, kOut, kIn);
    const OnDevice<std::uint8_t> quantized(static_cast<std::size_t>(at.num_bytes()));
    const target::Memory scales = target::quantize_normal_matrix(format, at, quantized.data(), stream);
    const OnDevice<float> weights(static_cast<std::size_t>(kOut * kIn));
    target::dequantize_weights({{format, at, quantized.data(), at.num_scales > 0 ? scales.as<float>() : nullptr},
                                what.weights,
                                what.scale_inputs == 0 ? kIn : what.scale_inputs,
                                word_order(format),
                                weights.data(),
                                true},
                               stream);
    const target::NormalRows x(format, kRows, kIn, stream);
    const OnDevice<float> rows(static_cast<std::size_t>(kRows * kIn));
    target::dequantize_rows({x.rows, rows.data(), true}, kRows, stream);
    stream.wait();
    const Moments of_weights = moments(weights.read()), of_rows = moments(rows.read());
    CHECK((of_weights.finite && of_rows.finite));
    const double sigma = target::kBenchWeightSigma;
    CHECK(std::fabs(of_weights.mean) < 5 * sigma / std::sqrt(60000.0));
    // int4's own error is some 1.5 % of the variance.
    CHECK(std::fabs(of_weights.variance / (sigma * sigma) - 1) < 0.05);
    CHECK((of_weights.largest > 3.5 * sigma && of_weights.largest < 5.4 * sigma));
    CHECK(std::fabs(of_rows.mean) < 5 / std::sqrt(2700.0));
    CHECK(std::fabs(of_rows.variance - 1) < 5 * std::sqrt(2 / 2700.0) + 0.01);
  }
}

TEST_CASE("a benchmark's keys and values have deviation 1 under their scale") {
  if (!find_device()) return;
  constexpr std::int64_t kBytes = 40'000;
  const target::Stream stream;
  for (const KvFormat format : {KvFormat::bf16, KvFormat::int8, KvFormat::fp8_e4m3}) {
    INFO(quant::name(format));
    const OnDevice<std::uint8_t> to(static_cast<std::size_t>(kBytes));
    target::fill_pages(format, kBytes, 5, to.data(), stream);
    stream.wait();
    const std::vector<std::uint8_t> bytes = to.read();
    std::vector<float> values;
    for (std::size_t i = 0; i + 1 < bytes.size(); i += static_cast<std::size_t>(quant::value_bytes(format))) {
      values.push_back(target::page_scale(format) *
                       (format == KvFormat::bf16
                            ? float_of_bf16(static_cast<std::uint16_t>(bytes[i] | bytes[i + 1] << 8))
                        : format == KvFormat::int8 ? static_cast<float>(static_cast<std::int8_t>(bytes[i]))
                                                   : float_of_fp8(bytes[i])));
    }
    const Moments found = moments(values);
    CHECK(found.finite);
    CHECK(std::fabs(found.mean) < 5 / std::sqrt(20000.0));
    // int8 clamps what is beyond 2.7: 1.3 % of the variance.
    CHECK(std::fabs(found.variance - 1) < 5 * std::sqrt(2 / 20000.0) + (format == KvFormat::int8 ? 0.02 : 0.002));
  }
}

}  // namespace
