// Tests operands of benchmarks: realistic numbers, the same each time.
#include "cuda/bench/bench_operands.h"

#include <cmath>

#include "cuda/bench/timing.h"
#include "device.h"

namespace {

using namespace qrl;
using namespace qrl::cuda;
using namespace qrl::cuda::test;
using quant::Element;
using quant::KvFormat;

struct Moments {
  double mean = 0, variance = 0;
  bool finite = true;
};
Moments moments(const std::vector<float>& values) {
  Moments found;
  const auto count = static_cast<double>(values.size());
  for (const float value : values) {
    found.finite = found.finite && std::isfinite(value);
    found.mean += value / count;
  }
  for (const float value : values) found.variance += (value - found.mean) * (value - found.mean) / count;
  return found;
}

std::int64_t element_bytes(Element element) { return element == Element::f32 ? 4 : element == Element::bf16 ? 2 : 1; }

/// Returns the numbers that fill_normal writes, times the unit scale.
std::vector<float> normal_numbers(Element element, float sigma, std::uint64_t seed, std::int64_t count) {
  const std::int64_t num_bytes = element == Element::int4 ? count / 2 : count * element_bytes(element);
  const OnDevice<std::uint8_t> to(static_cast<std::size_t>(num_bytes));
  const target::Stream stream;
  target::fill_normal(element, sigma, seed, num_bytes, to.data(), stream);
  const std::vector<std::uint8_t> bytes = to.read();
  std::vector<float> numbers;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t bits = 0;
    if (element == Element::int4) bits = (bytes[static_cast<std::size_t>(i / 2)] >> (i % 2 * 4)) & 15U;
    else
      std::memcpy(&bits, bytes.data() + i * element_bytes(element), static_cast<std::size_t>(element_bytes(element)));
    const float number = element == Element::f32        ? float_of(bits)
                         : element == Element::bf16     ? float_of_bf16(static_cast<std::uint16_t>(bits))
                         : element == Element::int8     ? static_cast<float>(static_cast<std::int8_t>(bits))
                         : element == Element::fp8_e4m3 ? float_of_fp8(static_cast<std::uint8_t>(bits))
                                                        : static_cast<float>(static_cast<int>(bits ^ 8U) - 8);
    numbers.push_back(target::unit_scale(element) * number);
  }
  return numbers;
}

TEST_CASE("benchmark operands: mean 0, given deviation, normal tails, no equal neighbors, repeated after a prime") {
  if (!find_device()) return;
  constexpr std::int64_t kCount = target::kNormalPeriod;
  constexpr auto kValues = static_cast<double>(kCount);
  for (const Element element : {Element::f32, Element::bf16, Element::int8, Element::fp8_e4m3, Element::int4}) {
    INFO("element " << static_cast<int>(element));
    const std::vector<float> all = normal_numbers(element, 0.5F, 7, 4 * kCount);
    const std::int64_t period = element == Element::int4 ? 2 * kCount : kCount;  // pairs
    CHECK(std::equal(all.begin() + period, all.end(), all.begin()));
    CHECK_FALSE(std::equal(all.begin() + period - 1, all.end(), all.begin()));
    const std::vector<float> values(all.begin(), all.begin() + kCount);
    const Moments found = moments(values);
    CHECK(found.finite);
    // Five standard errors: 1/sqrt(n) for the mean, sqrt(2/n) for the variance. int4's numbers are 0.19 apart.
    CHECK(std::fabs(found.mean) < 5 * 0.5 / std::sqrt(kValues));
    CHECK(std::fabs(found.variance / 0.25 - 1) < 5 * std::sqrt(2 / kValues) + (element == Element::int4 ? 0.06 : 2e-3));
    for (const double from : {1.0, 2.0, 3.0}) {
      const auto beyond = std::ranges::count_if(values, [&](float v) { return std::fabs(v) > from * 0.5; });
      const double want = std::erfc(from / std::sqrt(2.0));
      // 8-bit formats have few numbers: one next to the bound counts on one side of it.
      if (element != Element::int4)
        CHECK(std::fabs(static_cast<double>(beyond) / kValues - want) <
              5 * std::sqrt(want / kValues) + 0.06 * want + 0.01);
    }
    double product = 0;
    for (std::size_t i = 0; i + 1 < values.size(); ++i)
      product += static_cast<double>(values[i]) * values[i + 1] / kValues;
    CHECK(std::fabs(product) < 5 * 0.25 / std::sqrt(kValues));
    const std::vector<float> others = normal_numbers(element, 0.5F, 8, 1000);
    CHECK_FALSE(std::equal(others.begin(), others.end(), values.begin()));
    CHECK(normal_numbers(element, 0.5F, 8, 1000) == others);
  }
}

TEST_CASE("read benchmark: its kernel reads every word once, whatever the size") {
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

TEST_CASE("benchmark graphs: the host makes each call twice, whatever the number of rounds") {
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

TEST_CASE("benchmark keys and values: deviation 1 under their scale") {
  if (!find_device()) return;
  constexpr std::int64_t kPages = 20;
  const target::Stream stream;
  for (const KvFormat format : {KvFormat::bf16, KvFormat::int8, KvFormat::fp8_e4m3}) {
    INFO(quant::name(format));
    const KvLayout at = kv_layout(format, 2, 16, 32);
    const auto num_slots = static_cast<std::size_t>(at.slots(kPages));
    const std::size_t num_bytes = num_slots * static_cast<std::size_t>(at.slot_bytes());
    const OnDevice<std::uint8_t> keys(num_bytes), values(num_bytes);
    const OnDevice<float> key_scales(num_slots), value_scales(num_slots);
    target::fill_pages(
        {format, at, 32, keys.data(), values.data(), key_scales.data(), value_scales.data(), nullptr, nullptr}, kPages,
        stream);
    CHECK(keys.read() != values.read());
    const float scale = target::unit_scale(target::element_of(format));
    CHECK(key_scales.read() == std::vector<float>(num_slots, format == KvFormat::int8 ? scale : 0));
    CHECK(value_scales.read() == key_scales.read());
    const std::vector<std::uint8_t> bytes = keys.read();
    std::vector<float> numbers;
    for (std::size_t i = 0; i + 1 < bytes.size(); i += static_cast<std::size_t>(quant::value_bytes(format))) {
      numbers.push_back(scale * (format == KvFormat::bf16
                                     ? float_of_bf16(static_cast<std::uint16_t>(bytes[i] | bytes[i + 1] << 8))
                                 : format == KvFormat::int8 ? static_cast<float>(static_cast<std::int8_t>(bytes[i]))
                                                            : float_of_fp8(bytes[i])));
    }
    const Moments found = moments(numbers);
    CHECK(found.finite);
    CHECK(std::fabs(found.mean) < 5 / std::sqrt(20000.0));
    // int8 clamps values beyond 2.7: 1.3 % of the variance.
    CHECK(std::fabs(found.variance - 1) < 5 * std::sqrt(2 / 20000.0) + (format == KvFormat::int8 ? 0.02 : 0.002));
  }
}

TEST_CASE("benchmark pages: each used once, in random order") {
  std::vector<std::int32_t> pages = target::shuffled_pages(5, 100);
  CHECK_FALSE(std::ranges::is_sorted(pages));
  std::ranges::sort(pages);
  for (std::int32_t i = 0; i < 100; ++i) CHECK(pages[static_cast<std::size_t>(i)] == 5 + i);
}

}  // namespace
