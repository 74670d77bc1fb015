// The number formats and layouts of the kernels against the project's own, on the host.
#include "portable.h"

#include <bit>
#include <limits>

#include "base/bf16.h"
#include "device.h"
#include "layout.h"
#include "ops/linear.h"
#include "quant/fp8.h"

namespace {

using namespace qrl;
using namespace qrl::cuda;

}  // namespace

TEST_CASE("e4m3 and bf16 are the codecs' at every bf16 number, between them, and at ties") {
  for (std::uint32_t high = 0; high < 65536; ++high) {
    for (const std::uint32_t low : {0x0U, 0x1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      const float value = std::bit_cast<float>(high << 16 | low);
      if (fp8_of(value) != quant::encode_fp8(value)) FAIL("e4m3 of " << value);
      const std::uint16_t code = bf16_of(value), want = base::to_bf16(value).bits;
      if (code != want && !(std::isnan(value) && std::isnan(float_of_bf16(code)))) FAIL("bf16 of " << value);
    }
  }
  for (int code = 0; code < 256; ++code) {
    const float got = float_of_fp8(static_cast<std::uint8_t>(code)),
                want = quant::decode_fp8(static_cast<std::uint8_t>(code));
    CHECK((got == want || (std::isnan(got) && std::isnan(want))));
    CHECK(std::signbit(got) == std::signbit(want));
  }
}

TEST_CASE("magnitudes order like values, NaN and infinity on top") {
  const float largest = std::numeric_limits<float>::max();
  CHECK(magnitude_of(-2.0F) > magnitude_of(1.0F));
  CHECK(magnitude_of(largest) < kInfinityBits);
  CHECK(magnitude_of(-std::numeric_limits<float>::infinity()) == kInfinityBits);
  CHECK(magnitude_of(std::nanf("")) > kInfinityBits);
  CHECK(is_finite(largest));
  CHECK_FALSE(is_finite(std::numeric_limits<double>::infinity()));
  CHECK_FALSE(is_finite(std::nan("")));
}

TEST_CASE("matrices are padded to whole runs and tiles, 64 bits throughout") {
  const MatrixLayout at = matrix_layout(quant::Format::int4, 100, 130);
  CHECK((at.rows == 128 && at.width == 256 && at.row_bytes == 128 && at.num_scales == 2 && at.num_words == 17));
  CHECK(matrix_layout(quant::Format::int8, 64, 128).num_scales == 1);
  CHECK(matrix_layout(quant::Format::bf16, 64, 128).num_scales == 0);
  CHECK(matrix_layout(quant::Format::fp8_block128, 64, 129).num_scales == 2);
  CHECK(matrix_layout(quant::Format::bf16, 152'064, 16'384).num_bytes() == std::int64_t{152'064} * 16'384 * 2);
  CHECK(host_word_at(65, 3, 10) == (10 + 3) * 64 + 1);
}

TEST_CASE("key and value slots do not overlap and stay aligned") {
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
  // Beyond 2³¹ bytes.
  const KvLayout large = kv_layout(quant::KvFormat::bf16, 8, 16, 128);
  CHECK(large.code_at(large.slot(1'000'000, 7, 15)) == ((std::int64_t{8'000'007} * 16) + 15) * 256);
}

TEST_CASE("a tick's arrays follow each other, aligned") {
  for (const std::int64_t rows : {1, 3, 4, 257}) {
    const TickLayout at = tick_layout({rows, 5, 2, 7, 9, 3});
    CHECK(at.tokens + rows * 4 <= at.positions);
    CHECK(at.positions + rows * 4 <= at.first_pages);
    CHECK(at.first_pages + rows * 4 <= at.partials);
    CHECK(at.partials + rows * 4 <= at.page_ids);
    CHECK(at.page_ids + 5 * 4 <= at.copies);
    CHECK(at.copies + 2 * 12 <= at.tiles);
    CHECK(at.tiles + 7 * 20 <= at.tile_rows);
    CHECK(at.tile_rows + 9 * 4 <= at.split_rows);
    CHECK(at.split_rows + 3 * 4 <= at.num_bytes);
    for (const std::int64_t offset : {at.positions, at.first_pages, at.partials, at.page_ids, at.copies, at.tiles,
                                      at.tile_rows, at.split_rows, at.num_bytes})
      CHECK(offset % 16 == 0);
  }
}
