// Tests the kernels' number formats and layouts against the project's own, on the host.
#include "cuda/runtime/portable.h"

#include <bit>
#include <limits>
#include <set>

#include "base/bf16.h"
#include "cuda/engine/tick_memory.h"
#include "cuda/runtime/layout.h"
#include "device.h"
#include "ops/linear.h"
#include "quant/fp8.h"

namespace {

using namespace qrl;
using namespace qrl::cuda;

}  // namespace

TEST_CASE("device codecs: e4m3 and bf16 equal the host's at every bf16 number, between them, and at ties") {
  for (std::uint32_t high = 0; high < 65536; ++high) {
    for (const std::uint32_t low : {0x0U, 0x1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      const float value = std::bit_cast<float>(high << 16 | low);
      if (fp8_of(value) != quant::quantize_fp8(value)) FAIL("e4m3 of " << value);
      const std::uint16_t code = bf16_of(value), want = base::to_bf16(value).bits;
      if (code != want && !(std::isnan(value) && std::isnan(float_of_bf16(code)))) FAIL("bf16 of " << value);
    }
  }
  for (int code = 0; code < 256; ++code) {
    const float got = float_of_fp8(static_cast<std::uint8_t>(code)),
                want = quant::dequantize_fp8(static_cast<std::uint8_t>(code));
    CHECK((got == want || (std::isnan(got) && std::isnan(want))));
    CHECK(std::signbit(got) == std::signbit(want));
  }
}

TEST_CASE("device division: a product with the inverse has the division's bits after a format's rounding") {
  base::RandomStream random(23, base::RandomPurpose::test, 0);
  const auto mantissa = [&] {  // any, with few bits, or with all but few bits
    const auto any = static_cast<std::uint32_t>(random.below(1 << 23));
    const auto kind = random.below(4);
    return kind == 0 ? any & 0x700003U : kind == 1 ? any | 0x0ffffcU : any;
  };
  for (int i = 0; i < 400'000; ++i) {
    // A scale from 2^-60 to 2^119, and a value up to 448 times it.
    const auto exponent = static_cast<std::uint32_t>(67 + random.below(179));
    const float by = float_of(exponent << 23 | mantissa());
    const auto below = static_cast<std::uint32_t>(random.below(20));
    const float value = std::min(float_of((exponent + 8 - below) << 23 | mantissa()), 448.0F * by);
    const Divisor divisor(by);
    REQUIRE(divisor.is_usual());
    if (divisor.quotient(value) != value / by || divisor.quotient(-value) != -value / by)
      FAIL(value << " / " << by << " is not " << divisor.quotient(value));
  }
  for (const float by : {0.0F, 0x1p-61F, 0x1p-149F, std::nanf(""), std::numeric_limits<float>::infinity()})
    CHECK_FALSE(Divisor(by).is_usual());
}

TEST_CASE("device magnitudes: ordered like values, with NaN and infinity on top") {
  const float largest = std::numeric_limits<float>::max();
  CHECK(magnitude_of(-2.0F) > magnitude_of(1.0F));
  CHECK(magnitude_of(largest) < kInfinityBits);
  CHECK(magnitude_of(-std::numeric_limits<float>::infinity()) == kInfinityBits);
  CHECK(magnitude_of(std::nanf("")) > kInfinityBits);
  CHECK(is_finite(largest));
  CHECK_FALSE(is_finite(std::numeric_limits<double>::infinity()));
  CHECK_FALSE(is_finite(std::nan("")));
}

TEST_CASE("device matrices: padded to whole runs and tiles, with 64-bit offsets") {
  const MatrixLayout at = matrix_layout(quant::Format::int4, 100, 130);
  CHECK((at.rows == 128 && at.width == 256 && at.row_bytes == 128 && at.num_scales == 2 && at.num_words == 17));
  CHECK(matrix_layout(quant::Format::int8, 64, 128).num_scales == 1);
  CHECK(matrix_layout(quant::Format::bf16, 64, 128).num_scales == 0);
  CHECK(matrix_layout(quant::Format::fp8_block128, 64, 129).num_scales == 2);
  CHECK(matrix_layout(quant::Format::bf16, 152'064, 16'384).num_bytes() == std::int64_t{152'064} * 16'384 * 2);
  CHECK(host_word_at(65, 3, 10) == (10 + 3) * 64 + 1);
}

TEST_CASE("device KV slots: do not overlap and are aligned") {
  const KvLayout at = kv_layout(quant::KvFormat::int8, 3, 7, 10);
  CHECK((at.padded_dim == 16 && at.slot_bytes() == 16));
  std::vector<bool> seen(static_cast<std::size_t>(at.slots(5)), false);
  for (std::int64_t page = 0; page < 5; ++page) {
    for (std::int64_t head = 0; head < 3; ++head) {
      for (std::int64_t slot = 0; slot < 7; ++slot) {
        const auto idx = static_cast<std::size_t>(at.slot(page, head, slot));
        REQUIRE(idx < seen.size());
        CHECK_FALSE(seen[idx]);
        seen[idx] = true;
      }
    }
  }
  // Exceeds 2³¹ bytes.
  const KvLayout large = kv_layout(quant::KvFormat::bf16, 8, 16, 128);
  CHECK(large.byte_at(large.slot(1'000'000, 7, 15)) == ((std::int64_t{8'000'007} * 16) + 15) * 256);
}

TEST_CASE("tick arrays: consecutive and aligned, and only the last ones move with the number of pages") {
  for (const std::int64_t rows : {1, 3, 4, 257}) {
    const TickLayout at = tick_layout({rows, 6, 7, 9, 3, 5, 2}), more = tick_layout({rows, 6, 7, 9, 3, 500, 20});
    const std::int64_t bytes[] = {6 * 8, 6 * 8,  12,    rows * 4, rows * 4, rows * 4, rows * 4,
                                  6 * 4, 7 * 20, 9 * 4, 3 * 4,    5 * 4,    2 * 12};
    const auto offsets = [](const TickLayout& of) {
      return std::vector<std::int64_t>{of.uniforms,  of.sample_settings, of.attention_counts, of.tokens,
                                       of.positions, of.first_pages,     of.partials,         of.sample_rows,
                                       of.tiles,     of.tile_rows,       of.split_rows,       of.page_ids,
                                       of.copies,    of.num_bytes};
    };
    const std::vector<std::int64_t> places = offsets(at), later = offsets(more);
    for (std::size_t i = 0; i + 1 < places.size(); ++i) {
      CHECK(places[i] % 16 == 0);
      CHECK(places[i] + bytes[i] <= places[i + 1]);
      if (i <= 11) CHECK(places[i] == later[i]);
    }
    CHECK(at.num_bytes < more.num_bytes);
  }
}

TEST_CASE("decode rows: padded by little, to few different numbers") {
  std::set<std::int64_t> sizes;
  for (std::int64_t rows = 1; rows <= 512; ++rows) {
    const std::int64_t padded = padded_rows(rows);
    CHECK((padded >= rows && padded % 8 == 0 && padded_rows(padded) == padded));
    CHECK(padded - rows <= std::max<std::int64_t>(7, rows / 4));
    sizes.insert(padded);
  }
  CHECK(sizes.size() == 20);
}
