#include "ops/kernels/attention.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/bf16.h"
#include "ops/kernels/kernels.h"
#include "ops/paged_attention.h"
#include "ops/reference.h"
#include "ops/transformer.h"
#include "quant/format.h"
#include "quant/fp8.h"

using namespace qrl;
using base::Range;
using base::Team;
using ops::HeadShape;
using ops::kAttentionSpan;
using quant::KvFormat;

namespace {

/// Runs sequences in pages through rope_and_store and paged_attention like a decoder.
struct Setup {
  HeadShape shape;
  KvFormat format = KvFormat::f32;
  std::vector<std::int64_t> lengths;  ///< of the sequences
  std::int64_t page_size = 16;
  std::uint64_t page_order = 0;  ///< seed of the page permutation; 0: in order
  int members = 1;
  std::int64_t rows_per_call = 1 << 20;
  std::vector<float> q_gain, k_gain;
  double theta = 1e4;
  std::vector<float> query_scales;  ///< for e4m3 queries, one per kv head; empty: queries stay unquantized
};

struct Outcome {
  std::vector<float> qkv;  ///< after rope; rows of all sequences, concatenated
  std::vector<float> context;
  std::vector<float> lse;           ///< per row and head
  std::vector<float> dequantized;   ///< qkv with keys and values as dequantized from the pages
  std::vector<float> written_back;  ///< qkv as store_kv leaves it
  std::vector<std::vector<std::int32_t>> tables;
};

std::int64_t row_width(const HeadShape& shape) { return (shape.num_heads + 2 * shape.num_kv_heads) * shape.head_dim; }

Outcome run(const Setup& setup, const std::vector<float>& qkv) {
  Outcome out;
  out.qkv = qkv;
  std::vector<std::int32_t> positions;
  std::vector<const std::int32_t*> page_tables;
  std::int32_t num_pages = 1;  // page 0 is unused
  for (const std::int64_t length : setup.lengths) {
    std::vector<std::int32_t> table(static_cast<std::size_t>((length + setup.page_size - 1) / setup.page_size));
    std::iota(table.begin(), table.end(), num_pages);
    num_pages += static_cast<std::int32_t>(table.size());
    out.tables.push_back(table);
  }
  std::vector<std::int32_t> order(static_cast<std::size_t>(num_pages));
  std::iota(order.begin(), order.end(), 0);
  if (setup.page_order != 0) {
    base::RandomStream(setup.page_order, base::RandomPurpose::test, 0).shuffle(std::span(order));
  }
  for (std::size_t s = 0; s < setup.lengths.size(); ++s) {
    for (std::int32_t& page : out.tables[s]) page = order[static_cast<std::size_t>(page)];
    for (std::int64_t t = 0; t < setup.lengths[s]; ++t) {
      positions.push_back(static_cast<std::int32_t>(t));
      page_tables.push_back(out.tables[s].data());
    }
  }
  const auto& shape = setup.shape;
  const std::int64_t page_bytes = ops::kv_page_bytes(shape, setup.format, setup.page_size);
  base::Buffer keys(base::DType::u8, {num_pages, page_bytes}), values(base::DType::u8, {num_pages, page_bytes});
  const bool scaled = setup.format == KvFormat::fp8_e4m3;
  base::Buffer key_scales(base::DType::f32, {shape.num_kv_heads}), value_scales(base::DType::f32, {shape.num_kv_heads});
  // Unwritten slots must never be read: NaN would spread.
  for (const base::Buffer* buffer : {&keys, &values}) std::memset(buffer->view().data, 0xff, buffer->num_bytes());
  if (scaled) {
    std::fill_n(key_scales.as<float>(), shape.num_kv_heads, 0.013F);
    std::fill_n(value_scales.as<float>(), shape.num_kv_heads, 0.017F);
  }
  const ops::KvPages pages{setup.format,
                           num_pages,
                           setup.page_size,
                           static_cast<std::byte*>(keys.view().data),
                           static_cast<std::byte*>(values.view().data),
                           scaled ? key_scales.as<float>() : nullptr,
                           scaled ? value_scales.as<float>() : nullptr};
  ops::KvPages seen = pages;
  std::vector<float> score_scales = setup.query_scales;
  for (std::size_t i = 0; i < score_scales.size(); ++i) score_scales[i] *= key_scales.as<float>()[i];
  if (!score_scales.empty()) seen.key_scales = score_scales.data();
  const ops::AttentionRows where{positions.data(), page_tables.data()};
  const base::Buffer rope =
      ops::make_rope_table(*std::max_element(setup.lengths.begin(), setup.lengths.end()), shape.head_dim, setup.theta);
  const auto rows = static_cast<std::int64_t>(positions.size());
  out.context.assign(static_cast<std::size_t>(rows * shape.num_heads * shape.head_dim), -77.0F);
  out.lse.assign(static_cast<std::size_t>(rows * shape.num_heads), -77.0F);
  base::parallel(setup.members, [&](Team& team) {
    for (std::int64_t begin = 0; begin < rows; begin += setup.rows_per_call) {
      const Range part{begin, std::min(rows, begin + setup.rows_per_call)};
      const ops::HeadNorms norms{setup.q_gain.empty() ? nullptr : setup.q_gain.data(),
                                 setup.k_gain.empty() ? nullptr : setup.k_gain.data(), 1e-6F};
      ops::rope_and_store(team, shape, norms, rope.view(), where, part, pages, out.qkv.data());
      team.barrier();
      if (!setup.query_scales.empty()) {
        ops::quantize_queries(team, shape, part, setup.query_scales.data(), out.qkv.data());
        team.barrier();
      }
      ops::paged_attention(team, shape, where, part, seen, out.qkv.data(), out.context.data(), out.lse.data());
      team.barrier();
    }
  });
  out.written_back = out.qkv;
  base::parallel(setup.members, [&](Team& team) {
    ops::store_kv(team, shape, where, {0, rows}, pages, true, out.written_back.data());
  });
  out.dequantized = out.qkv;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int32_t position = positions[static_cast<std::size_t>(row)];
    float* k = out.dequantized.data() + row * row_width(shape) + shape.num_heads * shape.head_dim;
    for (std::int64_t head = 0; head < shape.num_kv_heads; ++head) {
      ops::read_slot(shape, pages, page_tables[static_cast<std::size_t>(row)][position / setup.page_size],
                     position % setup.page_size, head, k + head * shape.head_dim,
                     k + (shape.num_kv_heads + head) * shape.head_dim);
    }
  }
  return out;
}

std::vector<float> random_qkv(const Setup& setup) {
  const std::int64_t rows = std::accumulate(setup.lengths.begin(), setup.lengths.end(), std::int64_t{0});
  return test::normal_values(rows * row_width(setup.shape), 1.0F, 21);
}

const std::vector<HeadShape> kShapes{{6, 2, 64}, {5, 1, 14}, {3, 3, 34}, {14, 2, 18}};

}  // namespace

TEST_CASE("attention: equals its definition in fp64") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  Setup setup;
  setup.shape = GENERATE(from_range(kShapes));
  setup.format = GENERATE(KvFormat::f32, KvFormat::bf16, KvFormat::int8, KvFormat::fp8_e4m3);
  setup.lengths = {1, 33, 70};
  setup.page_size = 7;
  CAPTURE(path.name(), setup.shape.num_heads, setup.shape.head_dim, name(setup.format));
  const Outcome got = run(setup, random_qkv(setup));
  const test::AttentionReference want = test::attention(setup.shape, got.dequantized, setup.lengths, setup.format);
  test::check_close(got.context, want.context, [&](std::size_t i) { return want.bound[i]; });
  test::check_close(got.lse, want.lse, [&](std::size_t i) { return want.lse_bound[i]; });
}

TEST_CASE("e4m3 queries: have the codec's values, and scores use both scales") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  Setup setup;
  setup.shape = GENERATE(HeadShape{6, 2, 64}, HeadShape{4, 2, 14});
  setup.format = KvFormat::fp8_e4m3;
  setup.lengths = {1, 33, 70};
  setup.page_size = 7;
  setup.members = 2;
  CAPTURE(path.name(), setup.shape.head_dim);
  const std::vector<float> qkv = random_qkv(setup);
  std::vector<float> dequantized = run(setup, qkv).dequantized;
  setup.query_scales = {0x1p-7F, 0x1p-9F};  // the second saturates: its range is ±0.875
  const Outcome got = run(setup, qkv);
  std::int64_t num_saturated = 0;
  for (std::size_t i = 0; i < qkv.size(); ++i) {
    const auto head = static_cast<std::int64_t>(i) % row_width(setup.shape) / setup.shape.head_dim;
    if (head >= setup.shape.num_heads) continue;
    const float scale = setup.query_scales[static_cast<std::size_t>(head * 2 / setup.shape.num_heads)];
    const float code = quant::dequantize_fp8(quant::quantize_fp8(dequantized[i] / scale));
    REQUIRE(got.qkv[i] == code);
    num_saturated += std::fabs(code) == quant::kFp8Max ? 1 : 0;
    dequantized[i] = code * scale;
  }
  CHECK(num_saturated > 100);
  const test::AttentionReference want = test::attention(setup.shape, dequantized, setup.lengths, setup.format);
  test::check_close(got.context, want.context, [&](std::size_t i) { return want.bound[i]; });
  test::check_close(got.lse, want.lse, [&](std::size_t i) { return want.lse_bound[i]; });
}

TEST_CASE("attention: over several spans of positions equals its definition") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  Setup setup;
  setup.shape = GENERATE(HeadShape{6, 2, 64}, HeadShape{5, 1, 14});
  setup.format = GENERATE(KvFormat::f32, KvFormat::bf16, KvFormat::int8, KvFormat::fp8_e4m3);
  setup.lengths = {2 * kAttentionSpan + 5, kAttentionSpan + 1};
  if (setup.shape.head_dim == 64) setup.page_size = 7;
  else setup.page_size = GENERATE(16, 48, 7);
  setup.page_order = 9;
  setup.members = 2;
  CAPTURE(path.name(), setup.shape.head_dim, name(setup.format), setup.page_size);
  std::vector<float> qkv = random_qkv(setup);
  // Puts scores of 40 and more in the first, the second or the last span, so that the running maximum changes or stays.
  const std::int64_t width = row_width(setup.shape), keys = setup.shape.num_heads * setup.shape.head_dim;
  for (const std::int64_t row : {3, 140, 260})
    for (std::int64_t e = 0; e < setup.shape.head_dim; ++e) qkv[static_cast<std::size_t>(row * width + keys + e)] *= 6;
  const Outcome got = run(setup, qkv);
  const test::AttentionReference want = test::attention(setup.shape, got.dequantized, setup.lengths, setup.format);
  test::check_close(got.context, want.context, [&](std::size_t i) { return want.bound[i]; });
  test::check_close(got.lse, want.lse, [&](std::size_t i) { return want.lse_bound[i]; });
}

TEST_CASE("attention: with a window, equals its definition over the window alone") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  Setup setup;
  setup.shape = {6, 2, 14};
  setup.shape.window = GENERATE(1, 5, kAttentionSpan - 1, kAttentionSpan, kAttentionSpan + 1, 3 * kAttentionSpan);
  setup.format = GENERATE(KvFormat::f32, KvFormat::bf16, KvFormat::int8, KvFormat::fp8_e4m3);
  setup.lengths = {2 * kAttentionSpan + 5, kAttentionSpan + 1, 4};
  setup.page_size = GENERATE(16, 7);
  setup.members = 2;
  CAPTURE(path.name(), setup.shape.window, name(setup.format), setup.page_size);
  const std::vector<float> qkv = random_qkv(setup);
  const Outcome got = run(setup, qkv);
  const test::AttentionReference want = test::attention(setup.shape, got.dequantized, setup.lengths, setup.format);
  test::check_close(got.context, want.context, [&](std::size_t i) { return want.bound[i]; });
  test::check_close(got.lse, want.lse, [&](std::size_t i) { return want.lse_bound[i]; });
  if (setup.shape.window < 3 * kAttentionSpan) return;
  setup.shape.window = 0;  // one longer than all texts hides nothing
  CHECK(run(setup, qkv).context == got.context);
}

TEST_CASE("KV pages: hold exactly the bits that store_kv wrote") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  Setup setup;
  setup.shape = GENERATE(from_range(kShapes));
  setup.format = GENERATE(KvFormat::f32, KvFormat::bf16, KvFormat::int8, KvFormat::fp8_e4m3);
  setup.lengths = {5, 33};
  setup.page_size = 7;
  setup.members = 3;
  CAPTURE(path.name(), setup.shape.head_dim, name(setup.format));
  const Outcome got = run(setup, random_qkv(setup));
  CHECK((got.dequantized != got.qkv) == (setup.format != KvFormat::f32));
  for (std::size_t i = 0; i < got.dequantized.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(got.written_back[i]) == std::bit_cast<std::uint32_t>(got.dequantized[i])) continue;
    FAIL("element " << i << ": " << got.written_back[i] << ", the pages keep " << got.dequantized[i]);
  }
}

TEST_CASE("rotated heads, attention: equal transformers' and torch's") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  std::ifstream file(test::shipped_data() / "golden" / "ops" / "ops.json");
  REQUIRE(file.good());
  const nlohmann::json cases = nlohmann::json::parse(file)["attention"];
  REQUIRE(cases.size() == 3);
  for (const auto& golden : cases) {
    Setup setup;
    setup.shape = {golden["heads"], golden["kv_heads"], golden["head_dim"]};
    setup.lengths = {golden["length"].get<std::int64_t>()};
    setup.theta = golden["theta"];
    setup.page_size = 4;
    if (golden.contains("q_gain")) {
      setup.q_gain = golden["q_gain"].get<std::vector<float>>();
      setup.k_gain = golden["k_gain"].get<std::vector<float>>();
    }
    const Outcome got = run(setup, golden["qkv"].get<std::vector<float>>());
    std::vector<float> q, k;
    const std::int64_t q_width = setup.shape.num_heads * setup.shape.head_dim;
    const std::int64_t k_width = setup.shape.num_kv_heads * setup.shape.head_dim;
    for (std::int64_t t = 0; t < setup.lengths[0]; ++t) {
      const auto row = got.qkv.begin() + t * row_width(setup.shape);
      q.insert(q.end(), row, row + q_width);
      k.insert(k.end(), row + q_width, row + q_width + k_width);
    }
    const auto want_q = golden["q"].get<std::vector<double>>(), want_k = golden["k"].get<std::vector<double>>();
    // A rotated pair of magnitude up to 4, a norm over at most 34 elements and two products: a dozen units of 2⁻²⁴ · 4.
    test::check_close(q, want_q, [](std::size_t) { return 12 * 4 * 0x1p-24; });
    test::check_close(k, want_k, [](std::size_t) { return 12 * 4 * 0x1p-24; });
    // Scores of magnitude up to 20 have an error of a dozen units. It changes the softmax weights, and values of up to
    // 4, by the same relative amount.
    const auto want = golden["context"].get<std::vector<double>>();
    test::check_close(got.context, want, [](std::size_t) { return 20 * 12 * 4 * 0x1p-24; });
  }
}

TEST_CASE("attention: bits depend on neither page size, page order, chunks, team nor other sequences") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  Setup setup;
  setup.shape = GENERATE(HeadShape{6, 2, 64}, HeadShape{5, 1, 14});
  setup.format = GENERATE(KvFormat::f32, KvFormat::bf16, KvFormat::int8, KvFormat::fp8_e4m3);
  setup.lengths = {19, kAttentionSpan + 22};
  CAPTURE(path.name(), setup.shape.num_heads, name(setup.format));
  const std::vector<float> qkv = random_qkv(setup);
  const Outcome want = run(setup, qkv);
  for (const std::int64_t page_size : {1, 2, 3, 5, 8, 17, 32, 64}) {
    Setup other = setup;
    other.page_size = page_size;
    other.page_order = static_cast<std::uint64_t>(page_size) + 1;
    other.rows_per_call = page_size * 3 - 2;
    other.members = static_cast<int>(page_size % 3) + 1;
    const Outcome got = run(other, qkv);
    CHECK(got.tables[1] != want.tables[1]);  // the two page orders differ
    test::check_same_bits(got.context, want.context);
    test::check_same_bits(got.qkv, want.qkv);
  }
  Setup alone = setup;
  alone.lengths = {19};
  const Outcome single = run(alone, {qkv.begin(), qkv.begin() + 19 * row_width(setup.shape)});
  test::check_same_bits(single.context, {want.context.begin(),
                                         want.context.begin() + static_cast<std::ptrdiff_t>(single.context.size())});
}

TEST_CASE("attention: rows that share pages are computed together with the bits of each alone") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const HeadShape shape = GENERATE(HeadShape{6, 2, 64}, HeadShape{5, 1, 14});
  const KvFormat format = GENERATE(KvFormat::f32, KvFormat::bf16, KvFormat::int8, KvFormat::fp8_e4m3);
  const std::int64_t page_size = GENERATE(16, 48, 10);
  CAPTURE(path.name(), shape.num_heads, name(format), page_size);
  // Rows: samples of two prompts, one of them single; rows of a chunk that see growing contexts; one row that shares
  // less than a span.
  struct Row {
    std::int64_t prompt, shared_positions, position;
  };
  std::vector<Row> rows;
  for (std::int64_t i = 0; i < 11; ++i) rows.push_back({0, 2 * kAttentionSpan + 20, 2 * kAttentionSpan + 20 + 9 * i});
  rows.push_back({1, 0, 5});
  for (std::int64_t i = 0; i < 3; ++i) rows.push_back({2, kAttentionSpan, kAttentionSpan - 1 + 30 * i});
  for (std::int64_t i = 0; i < 6; ++i) rows.push_back({3, 4 * kAttentionSpan, kAttentionSpan - 2 + i});
  rows.push_back({0, kAttentionSpan - 1, 3 * kAttentionSpan});

  constexpr std::int64_t kMostPositions = 4 * kAttentionSpan;
  const std::int64_t table_pages = kMostPositions / page_size + 1;
  const auto num_rows = static_cast<std::int64_t>(rows.size());
  const std::int64_t num_pages = (num_rows + 4) * table_pages;
  std::vector<std::int32_t> order(static_cast<std::size_t>(num_pages));
  std::iota(order.begin(), order.end(), 0);
  base::RandomStream(5, base::RandomPurpose::test, 0).shuffle(std::span(order));
  std::vector<std::vector<std::int32_t>> tables;
  for (std::int64_t i = 0; i < num_rows; ++i) {
    const Row& row = rows[static_cast<std::size_t>(i)];
    std::vector<std::int32_t>& table = tables.emplace_back();
    for (std::int64_t page = 0; page < table_pages; ++page) {
      const bool is_shared = (page + 1) * page_size <= row.shared_positions;
      table.push_back(order[static_cast<std::size_t>((is_shared ? num_rows + row.prompt : i) * table_pages + page)]);
    }
  }

  const std::int64_t page_bytes = ops::kv_page_bytes(shape, format, page_size);
  base::Buffer keys(base::DType::u8, {num_pages, page_bytes}), values(base::DType::u8, {num_pages, page_bytes});
  const std::vector<float> head_scales(static_cast<std::size_t>(shape.num_kv_heads), 0.013F);
  const float* scales = format == KvFormat::fp8_e4m3 ? head_scales.data() : nullptr;
  const ops::KvPages pages{format,
                           num_pages,
                           page_size,
                           static_cast<std::byte*>(keys.view().data),
                           static_cast<std::byte*>(values.view().data),
                           scales,
                           scales};
  constexpr std::int64_t kShift = 101;  // offset of a row's values from those of the row before
  const std::vector<float> all_kv =
      test::normal_values(kMostPositions * row_width(shape) + num_rows * kShift, 1.0F, 31);
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const std::int64_t seen = rows[i].position + 1;
    std::vector<std::int32_t> positions(static_cast<std::size_t>(seen));
    std::iota(positions.begin(), positions.end(), 0);
    const std::vector<const std::int32_t*> table(positions.size(), tables[i].data());
    const auto begin = all_kv.begin() + static_cast<std::int64_t>(i) * kShift;
    std::vector<float> kv(begin, begin + seen * row_width(shape));
    base::parallel(1, [&](Team& team) {
      ops::store_kv(team, shape, {positions.data(), table.data()}, {0, seen}, pages, false, kv.data());
    });
  }

  const std::vector<float> qkv = test::normal_values(num_rows * row_width(shape), 1.0F, 29);
  std::vector<std::int32_t> positions;
  std::vector<const std::int32_t*> page_tables;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    positions.push_back(static_cast<std::int32_t>(rows[i].position));
    page_tables.push_back(tables[i].data());
  }
  const auto attend = [&](int members, std::int64_t rows_per_call) {
    std::vector<float> context(static_cast<std::size_t>(num_rows * shape.num_heads * shape.head_dim), -77.0F);
    base::parallel(members, [&](Team& team) {
      for (std::int64_t begin = 0; begin < num_rows; begin += rows_per_call) {
        ops::paged_attention(team, shape, {positions.data(), page_tables.data()},
                             {begin, std::min(num_rows, begin + rows_per_call)}, pages, qkv.data(), context.data());
      }
    });
    return context;
  };
  const std::vector<float> alone = attend(1, 1);
  test::check_same_bits(attend(1, num_rows), alone);
  test::check_same_bits(attend(1, 4), alone);
  test::check_same_bits(attend(2, num_rows), alone);
}

TEST_CASE("KV pages: keys and values are in their slots, quantized in each format") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  Setup setup;
  setup.shape = {3, 1, 6};
  setup.format = GENERATE(KvFormat::f32, KvFormat::bf16, KvFormat::int8, KvFormat::fp8_e4m3);
  setup.lengths = {9};
  setup.page_size = GENERATE(4, 3);
  setup.page_order = 3;
  CAPTURE(name(setup.format), setup.page_size);
  const Outcome got = run(setup, random_qkv(setup));
  for (std::int64_t t = 0; t < 9; ++t) {
    for (const std::int64_t side : {18, 24}) {
      const float* from = got.qkv.data() + t * row_width(setup.shape) + side;
      const float* to = got.dequantized.data() + t * row_width(setup.shape) + side;
      std::vector<std::int8_t> quantized(6);
      const float scale = quant::quantize_int8({from, 6}, quantized);
      const float fp8_scale = side == 18 ? 0.013F : 0.017F;
      for (std::size_t e = 0; e < 6; ++e) {
        const float want = setup.format == KvFormat::f32    ? from[e]
                           : setup.format == KvFormat::bf16 ? base::to_float(base::to_bf16(from[e]))
                           : setup.format == KvFormat::int8
                               ? static_cast<float>(quantized[e]) * scale
                               : quant::dequantize_fp8(quant::quantize_fp8(from[e] / fp8_scale)) * fp8_scale;
        CHECK(to[e] == want);
      }
    }
  }
}

TEST_CASE("e4m3: every code is written and read as by the reference codec") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  Setup setup;
  setup.shape = {1, 1, 254};
  setup.format = KvFormat::fp8_e4m3;
  setup.lengths = {1};  // one position has weight 1: the result is its value
  std::vector<float> qkv(3 * 254, 0.0F);
  std::vector<float> want;
  for (int code = 0; code < 256; ++code) {
    if ((code & 0x7f) == 0x7f) continue;
    want.push_back(quant::dequantize_fp8(static_cast<std::uint8_t>(code)) * 0.017F);
    qkv[2 * 254 + want.size() - 1] = want.back();
  }
  const Outcome got = run(setup, qkv);
  CHECK(std::equal(want.begin(), want.end(), got.dequantized.begin() + 2 * 254));
  CHECK(std::equal(want.begin(), want.end(), got.context.begin()));
}

TEST_CASE("fp8 quantizer: each path equals the reference codec for every bf16 number and its neighbors") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  int num_wrong = 0;
  for (std::uint32_t high = 0; high < 65536; ++high) {
    const float values[3] = {std::bit_cast<float>(high << 16), std::bit_cast<float>((high << 16) + 1),
                             std::bit_cast<float>((high << 16) + 0xffff)};
    std::uint8_t quantized[3];
    ops::kernels().quantize_fp8(values, 3, 1.0F, quantized);
    for (int i = 0; i < 3; ++i) num_wrong += quantized[i] != quant::quantize_fp8(values[i]);
  }
  CHECK(num_wrong == 0);
}

TEST_CASE("KV pages: copied slots give back the written values, whole words and the rest") {
  const HeadShape shape{2, 2, 6};
  const KvFormat format = GENERATE(KvFormat::f32, KvFormat::bf16, KvFormat::int8, KvFormat::fp8_e4m3);
  const std::int64_t num_slots = GENERATE(1, 2, 3, 5, 8);
  CAPTURE(name(format), num_slots);
  const std::int64_t page_bytes = ops::kv_page_bytes(shape, format, 8);
  std::vector<std::byte> keys(static_cast<std::size_t>(2 * page_bytes)), values(keys.size());
  std::vector<float> key_scales(2, 0.5F), value_scales(2, 0.25F);
  base::RandomStream random(5, base::RandomPurpose::test, 0);
  for (auto* bytes : {&keys, &values})
    for (std::byte& byte : *bytes) byte = static_cast<std::byte>(random.below(96));  // no NaN in any format
  const ops::KvPages pages{format, 2, 8, keys.data(), values.data(), key_scales.data(), value_scales.data()};
  const auto read = [&](std::int32_t page, std::int64_t slot, std::int64_t head) {
    std::vector<float> both(12);
    ops::read_slot(shape, pages, page, slot, head, both.data(), both.data() + 6);
    return both;
  };
  std::vector<std::vector<float>> before;
  for (std::int64_t slot = 0; slot < 8; ++slot)
    for (std::int64_t head = 0; head < 2; ++head) before.push_back(read(1, slot, head));
  ops::copy_slots(shape, pages, 0, 1, num_slots);
  for (std::int64_t slot = 0; slot < 8; ++slot) {
    for (std::int64_t head = 0; head < 2; ++head) {
      const auto& untouched = before[static_cast<std::size_t>(slot * 2 + head)];
      CHECK(read(1, slot, head) == (slot < num_slots ? read(0, slot, head) : untouched));
      CHECK(read(0, slot, head) != untouched);
    }
  }
}

TEST_CASE("attention: a NaN in a key or value reaches every row that attends to it, and no other") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const bool in_key = GENERATE(true, false);
  Setup setup;
  setup.shape = {2, 1, 8};
  setup.lengths = {20};
  setup.format = GENERATE(KvFormat::f32, KvFormat::bf16, KvFormat::int8, KvFormat::fp8_e4m3);
  std::vector<float> qkv = random_qkv(setup);
  const std::int64_t at = 11 * row_width(setup.shape) + (in_key ? 16 : 24);
  qkv[static_cast<std::size_t>(at)] = std::numeric_limits<float>::quiet_NaN();
  const Outcome got = run(setup, qkv);
  for (std::int64_t t = 0; t < 20; ++t) CHECK(std::isnan(got.context[static_cast<std::size_t>(t * 16)]) == (t >= 11));
}
