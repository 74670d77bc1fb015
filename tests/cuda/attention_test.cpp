// Tests attention against the CPU's op on the same bytes, and against itself with other plans, pages and neighbors.
#include <algorithm>
#include <cmath>
#include <limits>

#include "attention_fixtures.h"
#include "cuda/bench/speed.h"

namespace {

using namespace qrl;
using namespace qrl::cuda;
using namespace qrl::cuda::test;

/// Bounds the difference from the CPU. Beyond the CPU's span of 128 positions, weights are rounded to bf16 relative to
/// another position's weight. That is 2⁻⁸ of values up to 4.5, where few are averaged. int8's weights have 16 bits on
/// both.
struct Bound {
  double absolute, relative;
};
Bound bound(KvFormat format) { return format == KvFormat::int8 ? Bound{1e-4, 1e-4} : Bound{1e-2, 6e-3}; }

}  // namespace

TEST_CASE("device attention: equals the CPU's on the same bytes, in every KV format, whole, chunked and tiled") {
  if (!find_device()) return;
  struct Case {
    std::int64_t num_heads, num_kv_heads, head_dim, page_size;
    std::vector<std::int32_t> single_positions;
    std::int32_t first_of_prompt, rows_of_prompt;
  };
  // Groups of 1, 4, 7, 8, 12 and 33 query heads; contexts of 1, 7, 33 and 257 positions and at the chunks' ends.
  const Case cases[] = {{2, 2, 16, 7, {0, 6, 32, 254, 255, 256, 510, 511, 512}, 250, 20},
                        {4, 1, 64, 16, {0, 256, 511, 767}, 0, 20},
                        {7, 1, 80, 5, {6, 255, 256}, 240, 19},
                        {16, 2, 128, 32, {32, 255, 512}, 505, 9},
                        {12, 1, 128, 300, {0, 256, 299}, 254, 5},
                        {4, 2, 256, 16, {6, 255, 512}, 251, 7},
                        {33, 1, 24, 16, {0, 32, 256}, 255, 2},
                        {20, 1, 256, 16, {32, 256}, 0, 3}};
  for (const Case& shape : cases) {
    const ops::HeadShape heads{shape.num_heads, shape.num_kv_heads, shape.head_dim};
    const std::int64_t num_pages = ceil_div(768, shape.page_size);
    for (const KvFormat format : kFormats) {
      const Pool pool(format, heads, shape.page_size, shuffled(num_pages));
      Rows rows;
      for (const std::int32_t position : shape.single_positions) rows.add(pool, consecutive(0, num_pages), position);
      rows.add(pool, consecutive(0, num_pages), shape.first_of_prompt, shape.rows_of_prompt);
      const std::vector<float> q =
          normal_values(static_cast<std::int64_t>(rows.positions.size() * row_floats(heads)), 1, 21);
      const std::vector<float> want = on_cpu(pool, rows, q);
      INFO(quant::name(format) << ", " << shape.num_heads << " heads of " << shape.head_dim << ", "
                               << shape.num_kv_heads << " kv heads, pages of " << shape.page_size);
      in_both_orders([&] {
        for (const std::int64_t max_partials : {std::int64_t{0}, kManyPartials}) {
          const Attended got = attend(pool, rows, q, max_partials);
          CHECK(got.plan.split_rows.empty() == (max_partials == 0));
          CHECK(first_beyond(got.context, want, bound(format).absolute, bound(format).relative) == "");
        }
      });
    }
  }
}

TEST_CASE("device attention: with windows and a factor of the scores, equals the CPU's, whole, chunked and tiled") {
  if (!find_device()) return;
  // Windows of 1, within a chunk, over chunks and over segments of 2,048 positions; rows at W − 1, W, W + 1 and 3 W.
  for (const std::int64_t window : {1, 7, 200, 300, 2100}) {
    for (const KvFormat format : kFormats) {
      ops::HeadShape heads{4, 2, 16, 0.4F};
      const Pool pool(format, heads, 16, shuffled(300));
      Pool windowed(format, heads, 16, shuffled(300));
      windowed.heads.window = window;
      Rows rows;
      for (const std::int64_t length : {window - 1, window, window + 1, std::min<std::int64_t>(3 * window, 4700)})
        if (length > 0) rows.add(pool, consecutive(0, 300), static_cast<std::int32_t>(length) - 1);
      rows.add(pool, consecutive(0, 300), 250, 20);
      rows.add(pool, consecutive(0, 300), 4100);
      rows.add(pool, consecutive(0, 300), 4600, 9);
      const std::vector<float> q =
          normal_values(static_cast<std::int64_t>(rows.positions.size() * row_floats(heads)), 1, 51);
      const std::vector<float> want = on_cpu(windowed, rows, q);
      INFO(quant::name(format) << ", windows of " << window);
      std::vector<float> whole;
      for (const std::int64_t max_partials : {std::int64_t{0}, kManyPartials}) {
        for (const bool joins_segments : {false, true}) {
          const std::vector<float> got = attend(windowed, rows, q, max_partials, 0, 0, joins_segments).context;
          CHECK(first_beyond(got, want, bound(format).absolute, bound(format).relative) == "");
          if (whole.empty()) whole = got;
          CHECK(first_beyond(got, whole, 0, 0) == "");  // the same sums, however the work is split
        }
      }
    }
  }
}

TEST_CASE("device attention: pages before all windows are not read") {
  if (!find_device()) return;
  ops::HeadShape heads{4, 2, 16};
  heads.window = 40;
  for (const KvFormat format : kFormats) {
    const Pool pool(format, heads, 16, shuffled(60));
    Rows rows, freed;
    rows.add(pool, consecutive(0, 60), 700, 3);
    freed = rows;
    for (std::size_t page = 0; page < (700 - 40) / 16; ++page) freed.page_ids[page] = 1 << 28;  // outside the pool
    const std::vector<float> q = normal_values(static_cast<std::int64_t>(3 * row_floats(heads)), 1, 52);
    for (const std::int64_t max_partials : {std::int64_t{0}, kManyPartials})
      CHECK(attend(pool, freed, q, max_partials).context == attend(pool, rows, q, max_partials).context);
  }
}

TEST_CASE("device attention: bf16 contexts are the fp32 ones rounded, with zeros behind them") {
  if (!find_device()) return;
  const ops::HeadShape heads{6, 2, 24};  // rows of 144
  constexpr std::int64_t kStride = 256;
  for (const KvFormat format : kFormats) {
    const Pool pool(format, heads, 16, shuffled(40));
    Rows rows;
    rows.add(pool, consecutive(0, 40), 3);
    rows.add(pool, consecutive(0, 40), 600);
    rows.add(pool, consecutive(0, 40), 250, 9);
    const std::vector<float> q =
        normal_values(static_cast<std::int64_t>(rows.positions.size() * row_floats(heads)), 1, 28);
    for (const std::int64_t max_partials : {std::int64_t{0}, kManyPartials}) {
      const std::vector<float> context = attend(pool, rows, q, max_partials).context;
      const std::vector<std::uint16_t> quantized = attend(pool, rows, q, max_partials, 0, kStride).quantized;
      std::vector<std::uint16_t> want;
      for (std::size_t i = 0; i < context.size(); ++i) {
        want.push_back(bf16_of(context[i]));
        if ((i + 1) % row_floats(heads) == 0) want.resize((i + 1) / row_floats(heads) * kStride);
      }
      INFO(quant::name(format) << ", " << max_partials << " partials");
      CHECK(quantized == want);
    }
  }
}

TEST_CASE("device attention: head groups of real models, at chunk ends, with shared prompts") {
  if (!find_device()) return;
  // Qwen3-8B and Llama-3.1-8B; Qwen3-0.6B and 1.7B; Qwen2.5-0.5B; Qwen2.5-7B; Llama-3.2-1B; Llama-3.2-3B.
  for (const ops::HeadShape& heads :
       {ops::HeadShape{32, 8, 128}, {16, 8, 128}, {14, 2, 64}, {28, 4, 128}, {32, 8, 64}, {24, 8, 128}}) {
    for (const KvFormat format : kFormats) {
      const Pool pool(format, heads, 16, shuffled(40));
      Rows rows;
      for (const std::int32_t length : {1, 255, 256, 257}) rows.add(pool, consecutive(0, 17), length - 1);
      std::vector<std::int64_t> own = consecutive(0, 17);  // the first 272 positions are shared
      own.push_back(30);
      rows.add(pool, own, 280);
      const std::vector<float> q =
          normal_values(static_cast<std::int64_t>(rows.positions.size() * row_floats(heads)), 1, 25);
      INFO(quant::name(format) << ", " << heads.num_heads << " heads of " << heads.head_dim << ", "
                               << heads.num_kv_heads << " kv heads");
      CHECK(first_beyond(attend(pool, rows, q, kManyPartials).context, on_cpu(pool, rows, q), bound(format).absolute,
                         bound(format).relative) == "");
    }
  }
}

TEST_CASE("device attention, int8 pages: queries and weights keep the CPU's 15 and 16 bits, whatever their size") {
  if (!find_device()) return;
  const ops::HeadShape heads{8, 2, 128};
  const Pool pool(KvFormat::int8, heads, 16, shuffled(40));
  Rows rows;
  for (const std::int32_t length : {2, 17, 128, 256, 600}) rows.add(pool, consecutive(0, 40), length - 1);
  rows.add(pool, consecutive(0, 40), 120, 16);
  for (const float sigma : {0.0F, 1e-20F, 1e-3F, 4.0F, 30.0F}) {
    std::vector<float> q =
        normal_values(static_cast<std::int64_t>(rows.positions.size() * row_floats(heads)), sigma, 26);
    INFO("queries of " << sigma);
    // Scores equal the CPU's bits, so even scores of some hundreds give the same weights within the error of exp.
    CHECK(first_beyond(attend(pool, rows, q, kManyPartials).context, on_cpu(pool, rows, q), 4e-4, 4e-4) == "");
  }
}

TEST_CASE("device attention, e4m3 pages: queries and weights keep 11 bits, whatever the queries' size") {
  if (!find_device()) return;
  const ops::HeadShape heads{8, 2, 128};
  Pool pool(KvFormat::fp8_e4m3, heads, 16, shuffled(40));
  Rows rows;
  for (const std::int32_t length : {1, 17, 128, 256, 600}) rows.add(pool, consecutive(0, 40), length - 1);
  rows.add(pool, consecutive(0, 40), 120, 16);
  const std::vector<float> q =
      normal_values(static_cast<std::int64_t>(rows.positions.size() * row_floats(heads)), 1, 27);
  const std::vector<float> got = attend(pool, rows, q, kManyPartials).context;
  // The largest error is 4.2e-4; that of the CPU, whose queries and weights have bf16's 8 bits, is 2.4e-3.
  CHECK(first_beyond(got, in_fp64(pool, rows, q), 8e-4, 0) == "");

  // Scaling queries up and the keys' scales down by the same factor gives the same bits.
  const std::vector<float> scales = pool.head_scales[0];
  for (const float factor : {0x1p70F, 0x1p-70F}) {
    std::vector<float> q_scaled;
    for (const float value : q) q_scaled.push_back(value * factor);
    for (std::size_t i = 0; i < scales.size(); ++i) pool.head_scales[0][i] = scales[i] / factor;
    pool.to_device();
    CHECK(first_beyond(attend(pool, rows, q_scaled, kManyPartials).context, got, 0, 0) == "");
  }
}

TEST_CASE("device attention: a non-finite query makes its head NaN, a zero query gives the mean") {
  if (!find_device()) return;
  const ops::HeadShape heads{4, 2, 64};
  for (const KvFormat format : kFormats) {
    const Pool pool(format, heads, 16, shuffled(4));
    Rows rows;
    rows.add(pool, consecutive(0, 4), 40);
    const std::vector<float> zeros(row_floats(heads));
    const std::vector<float> mean = in_fp64(pool, rows, zeros);
    INFO(quant::name(format));
    CHECK(first_beyond(attend(pool, rows, zeros, 0).context, mean, bound(format).absolute, 0) == "");
    for (const float value : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
      std::vector<float> q = zeros;
      q[64 + 5] = value;  // of head 1
      const std::vector<float> context = attend(pool, rows, q, 0).context;
      for (std::size_t i = 0; i < context.size(); ++i) {
        if (std::isnan(context[i]) != (i / 64 == 1)) FAIL("query " << value << ", element " << i);
      }
    }
  }
}

TEST_CASE("device attention: a row's bits do not depend on plan, page order or the tick's other rows") {
  if (!find_device()) return;
  const ops::HeadShape heads{8, 2, 32};
  for (const KvFormat format : kFormats) {
    constexpr std::int64_t kPageSize = 20, kPages = 160;
    const Pool scattered(format, heads, kPageSize, shuffled(kPages)),
        in_order(format, heads, kPageSize, numbers(kPages));
    // A prompt of 540 tokens in 27 pages, whose samples continue in their own pages; another sequence; a prompt's
    // chunk.
    const auto all_rows = [&](const Pool& pool) {
      Rows rows;
      for (std::int64_t sample = 0; sample < 9; ++sample) {
        std::vector<std::int64_t> pages = consecutive(0, 27);
        for (const std::int64_t own : consecutive(30 + 12 * sample, 12)) pages.push_back(own);
        rows.add(pool, pages, static_cast<std::int32_t>(540 + 25 * sample));
      }
      rows.add(pool, consecutive(140, 20), 300);
      rows.add(pool, consecutive(139, 20), 249, 12);
      return rows;
    };
    const Rows rows = all_rows(scattered);
    const std::size_t size = row_floats(heads);
    const std::vector<float> q = normal_values(static_cast<std::int64_t>(rows.positions.size() * size), 1, 22);
    const Attended whole = attend(scattered, rows, q, 0), split = attend(scattered, rows, q, kManyPartials);
    INFO(quant::name(format));
    // The two plans differ: the first shares and splits nothing, the second does both.
    CHECK(whole.plan.split_rows.empty());
    CHECK(split.plan.split_rows.size() == rows.positions.size());
    CHECK_FALSE(split.plan.joins_segments);
    const auto is_common = [](const AttentionTile& tile) { return tile.num_rows > 3 && tile.end_chunk <= 2; };
    CHECK(std::ranges::none_of(whole.plan.tiles, [](const AttentionTile& tile) { return tile.first_chunk > 0; }));
    CHECK(std::ranges::any_of(split.plan.tiles, is_common));
    CHECK(first_beyond(split.context, whole.context, 0, 0) == "");
    CHECK(first_beyond(attend(in_order, all_rows(in_order), q, kManyPartials).context, whole.context, 0, 0) == "");
    // Launches fewer blocks than tiles, and more blocks than tiles.
    in_both_orders([&] {
      for (const std::int64_t tile_blocks : {3, 40})
        CHECK(first_beyond(attend(scattered, rows, q, kManyPartials, tile_blocks).context, whole.context, 0, 0) == "");
    });
    for (const std::size_t row : {std::size_t{0}, std::size_t{8}, std::size_t{9}, std::size_t{10}, std::size_t{21}}) {
      Rows one;
      one.positions = {rows.positions[row]};
      one.first_pages = {rows.first_pages[row]};
      one.page_ids = rows.page_ids;
      const auto from = static_cast<std::ptrdiff_t>(row * size);
      const std::vector<float> q_of(q.begin() + from, q.begin() + from + static_cast<std::ptrdiff_t>(size)),
          want(whole.context.begin() + from, whole.context.begin() + from + static_cast<std::ptrdiff_t>(size));
      for (const std::int64_t max_partials : {std::int64_t{0}, kManyPartials})
        CHECK(first_beyond(attend(scattered, one, q_of, max_partials).context, want, 0, 0) == "");
    }
  }
}

TEST_CASE("device attention: many chunks join with the same bits, split and whole, and equal the CPU's") {
  if (!find_device()) return;
  const ops::HeadShape heads{2, 1, 16};
  constexpr std::int64_t kPageSize = 64, kPages = 262, kStride = 128;
  constexpr std::int32_t kSegment = kSegmentChunks * kAttentionChunk;
  for (const KvFormat format : kFormats) {
    const Pool pool(format, heads, kPageSize, shuffled(kPages));
    Rows rows;
    // The ends of segments, more segments than the second kernel has warps, and a prompt whose rows partly see no
    // second segment.
    for (const std::int32_t length : {kSegment, kSegment + 1, 2 * kSegment - 1, 2 * kSegment + 300, 8 * kSegment + 257})
      rows.add(pool, consecutive(0, kPages), length - 1);
    rows.add(pool, consecutive(0, kPages), kSegment - 5, 12);
    const std::vector<float> q =
        normal_values(static_cast<std::int64_t>(rows.positions.size() * row_floats(heads)), 1, 29);
    const std::vector<float> want = on_cpu(pool, rows, q);
    INFO(quant::name(format));
    in_both_orders([&] {
      const Attended whole = attend(pool, rows, q, 0), split = attend(pool, rows, q, kManyPartials);
      CHECK(whole.plan.split_rows.empty());
      CHECK(split.plan.split_rows.size() == rows.positions.size());
      CHECK(split.plan.joins_segments);
      CHECK(first_beyond(whole.context, want, bound(format).absolute, bound(format).relative) == "");
      CHECK(first_beyond(split.context, whole.context, 0, 0) == "");
      CHECK(first_beyond(attend(pool, rows, q, kManyPartials, 0, 0, false).context, whole.context, 0, 0) == "");
    });
    const std::vector<float> whole = attend(pool, rows, q, 0).context;
    const std::vector<std::uint16_t> quantized = attend(pool, rows, q, 0, 0, kStride).quantized;
    for (const bool joins_segments : {false, true})
      CHECK(quantized == attend(pool, rows, q, kManyPartials, 0, kStride, joins_segments).quantized);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const std::size_t at = i / row_floats(heads) * kStride + i % row_floats(heads);
      if (quantized[at] != bf16_of(whole[i])) FAIL("element " << i << " is another as bf16");
    }
  }
}

TEST_CASE("device attention: the context of a single position is its value, for every quantized value") {
  if (!find_device()) return;
  const ops::HeadShape heads{1, 1, 256};
  for (const KvFormat format : kFormats) {
    Pool pool(format, heads, 1, {0});
    std::vector<float> want;
    pool.head_scales[1][0] = 0.37F;
    for (std::int64_t e = 0; e < 256; ++e) {
      const auto byte = static_cast<std::uint8_t>(e);
      std::uint8_t* code = pool.quantized[1].data() + e * pool.at.value_bytes;
      if (format == KvFormat::bf16) {
        code[0] = 0x5a;
        code[1] = byte % 128 == 127 ? 0x3f : byte;  // no infinity, no NaN
        want.push_back(float_of_bf16(static_cast<std::uint16_t>(code[0] | code[1] << 8)));
      } else if (format == KvFormat::int8) {
        *code = byte;
        pool.slot_scales[1][0] = 0.5F;
        want.push_back(static_cast<float>(static_cast<std::int8_t>(byte)) * 0.5F);
      } else {
        *code = byte % 128 == 127 ? 0 : byte;
        want.push_back(float_of_fp8(*code) * 0.37F);
      }
    }
    pool.to_device();
    Rows rows;
    rows.add(pool, {0}, 0);
    INFO(quant::name(format));
    // int8's unit is a 65,535th of the weight times the scale.
    const double rounding = format == KvFormat::int8 ? 2e-7 : 0;
    CHECK(first_beyond(attend(pool, rows, normal_values(256, 1, 23), 0).context, want, 0, rounding) == "");
  }
}

TEST_CASE("device attention: NaN in keys or values reaches every attending row, and no other sequence") {
  if (!find_device()) return;
  const ops::HeadShape heads{4, 1, 64};
  for (const KvFormat format : kFormats) {
    for (const int side : {0, 1}) {
      Pool pool(format, heads, 16, numbers(40));
      const std::int64_t slot = pool.at.slot(3, 0, 5);
      if (format == KvFormat::int8) {
        pool.slot_scales[side][static_cast<std::size_t>(slot)] = std::nanf("");
      } else {
        std::uint8_t* code = pool.quantized[side].data() + pool.at.byte_at(slot) + 20 * pool.at.value_bytes;
        code[0] = 0xff;  // also negative
        if (format == KvFormat::bf16) code[1] = 0xff;
      }
      pool.to_device();
      Rows rows;
      rows.add(pool, consecutive(0, 20), 300);
      rows.add(pool, consecutive(20, 20), 300);
      rows.add(pool, consecutive(0, 20), 53, 3);
      const std::vector<float> q = normal_values(static_cast<std::int64_t>(5 * row_floats(heads)), 1, 24);
      for (const std::int64_t max_partials : {std::int64_t{0}, kManyPartials}) {
        const std::vector<float> context = attend(pool, rows, q, max_partials).context;
        // If a slot's scale is NaN, all elements are NaN; if one value is NaN, only its element is.
        for (std::size_t row = 0; row < 5; ++row) {
          int num_nan = 0;
          for (std::size_t i = 0; i < row_floats(heads); ++i)
            num_nan += std::isnan(context[row * row_floats(heads) + i]);
          INFO(quant::name(format) << (side == 0 ? ", keys" : ", values") << ", row " << row << ": " << num_nan);
          const int all = format != KvFormat::int8 && side == 1 ? 4 : 256;
          CHECK(num_nan == (row == 1 ? 0 : all));
        }
      }
    }
  }
}

TEST_CASE("attention benchmark: reports a positive time, with and without shared pages") {
  if (!find_device()) return;
  AttentionSpeedTask task;
  task.model.num_attention_heads = 2;
  task.model.num_key_value_heads = 1;
  task.model.head_dim = 32;
  task.num_sequences = 2;
  task.num_positions = 260;
  task.pool_bytes = 1 << 17;
  for (const KvFormat format : kFormats) {
    task.format = format;
    task.shared_positions = 0;
    const AttentionSpeed alone = target::measure_attention(task);
    task.shared_positions = 256;
    const AttentionSpeed shared = target::measure_attention(task);
    INFO(quant::name(format));
    CHECK((alone.attention_s > 0 && shared.attention_s > 0 && alone.read_bytes_per_s > 0));
  }
}
