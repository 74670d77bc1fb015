#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "ops/reference.h"
#include "ops/transformer.h"

using namespace qrl;
using base::DType;
using base::Range;
using base::Team;
using ops::HeadShape;

namespace {

/// Sequences in pages, run through rope_and_store and paged_attention the way a decoder does.
struct Setup {
  HeadShape shape;
  DType dtype = DType::f32;
  std::vector<std::int64_t> lengths;  ///< of the sequences
  std::int64_t page_size = 16;
  std::uint64_t page_order = 0;  ///< seed of the page permutation; 0: in order
  int members = 1;
  std::int64_t rows_per_call = 1 << 20;
  std::vector<float> q_gain, k_gain;
  double theta = 1e4;
};

struct Outcome {
  std::vector<float> qkv;  ///< after rope, rows of all sequences one after the other
  std::vector<float> context;
  base::Buffer keys, values;
  std::vector<std::vector<std::int32_t>> tables;
};

std::int64_t row_width(const HeadShape& shape) { return (shape.num_heads + 2 * shape.num_kv_heads) * shape.head_dim; }

Outcome run(const Setup& setup, const std::vector<float>& qkv) {
  Outcome out;
  out.qkv = qkv;
  std::vector<std::int32_t> positions;
  std::vector<const std::int32_t*> page_tables;
  std::int32_t num_pages = 1;  // page 0 belongs to nobody
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
  out.keys = base::Buffer(setup.dtype, {num_pages, setup.page_size, shape.num_kv_heads, shape.head_dim});
  out.values = base::Buffer(setup.dtype, {num_pages, setup.page_size, shape.num_kv_heads, shape.head_dim});
  // What nobody has written must never be read: NaN would spread.
  std::memset(out.keys.view().data, 0xff, out.keys.num_bytes());
  std::memset(out.values.view().data, 0xff, out.values.num_bytes());
  const ops::KvPages pages{out.keys.view(), out.values.view(), setup.page_size};
  const ops::AttentionRows where{positions.data(), page_tables.data()};
  const base::Buffer rope =
      ops::make_rope_table(*std::max_element(setup.lengths.begin(), setup.lengths.end()), shape.head_dim, setup.theta);
  const auto rows = static_cast<std::int64_t>(positions.size());
  out.context.assign(static_cast<std::size_t>(rows * shape.num_heads * shape.head_dim), -77.0F);
  base::parallel(setup.members, [&](Team& team) {
    for (std::int64_t begin = 0; begin < rows; begin += setup.rows_per_call) {
      const Range part{begin, std::min(rows, begin + setup.rows_per_call)};
      ops::rope_and_store(team, shape, setup.q_gain.empty() ? nullptr : setup.q_gain.data(),
                          setup.k_gain.empty() ? nullptr : setup.k_gain.data(), 1e-6F, rope.view(), where, part, pages,
                          out.qkv.data());
      team.barrier();
      ops::paged_attention(team, shape, where, part, pages, out.qkv.data(), out.context.data());
      team.barrier();
    }
  });
  return out;
}

std::vector<float> random_qkv(const Setup& setup) {
  const std::int64_t rows = std::accumulate(setup.lengths.begin(), setup.lengths.end(), std::int64_t{0});
  return test::normal_values(rows * row_width(setup.shape), 1.0F, 21);
}

const std::vector<HeadShape> kShapes{{6, 2, 64}, {5, 1, 14}, {3, 3, 34}, {14, 2, 18}};

}  // namespace

TEST_CASE("attention equals its definition in double precision") {
  const test::WithIsa isa(GENERATE(from_range(test::isa_paths())));
  Setup setup;
  setup.shape = GENERATE(from_range(kShapes));
  setup.dtype = GENERATE(DType::f32, DType::bf16);
  setup.lengths = {1, 33, 70};
  setup.page_size = 7;
  CAPTURE(name(ops::isa()), setup.shape.num_heads, setup.shape.head_dim, name(setup.dtype));
  const Outcome got = run(setup, random_qkv(setup));
  const test::AttentionReference want = test::attention(setup.shape, got.qkv, setup.lengths, setup.dtype);
  test::check_close(got.context, want.context, [&](std::size_t i) { return want.bound[i]; });
}

TEST_CASE("rotated heads and attention equal those of transformers and torch") {
  const test::WithIsa isa(GENERATE(from_range(test::isa_paths())));
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
    // A rotated pair of size up to 4, a norm over at most 34 elements and two products: a dozen units of 2⁻²⁴ · 4.
    test::check_close(q, want_q, [](std::size_t) { return 12 * 4 * 0x1p-24; });
    test::check_close(k, want_k, [](std::size_t) { return 12 * 4 * 0x1p-24; });
    // Scores of size up to 20 carry a dozen units; they move softmax weights, and so values of up to 4, by as much.
    const auto want = golden["context"].get<std::vector<double>>();
    test::check_close(got.context, want, [](std::size_t) { return 20 * 12 * 4 * 0x1p-24; });
  }
}

TEST_CASE("attention's bits depend on neither page size, page order, chunks, team nor other sequences") {
  const test::WithIsa isa(GENERATE(from_range(test::isa_paths())));
  Setup setup;
  setup.shape = GENERATE(HeadShape{6, 2, 64}, HeadShape{5, 1, 14});
  setup.dtype = GENERATE(DType::f32, DType::bf16);
  setup.lengths = {19, 70};
  CAPTURE(name(ops::isa()), setup.shape.num_heads, name(setup.dtype));
  const std::vector<float> qkv = random_qkv(setup);
  const Outcome want = run(setup, qkv);
  for (const std::int64_t page_size : {1, 2, 3, 5, 8, 17, 32, 64}) {
    Setup other = setup;
    other.page_size = page_size;
    other.page_order = static_cast<std::uint64_t>(page_size) + 1;
    other.rows_per_call = page_size * 3 - 2;
    other.members = static_cast<int>(page_size % 3) + 1;
    const Outcome got = run(other, qkv);
    CHECK(got.tables[1] != want.tables[1]);  // the arms differ
    test::check_same_bits(got.context, want.context);
    test::check_same_bits(got.qkv, want.qkv);
  }
  Setup alone = setup;
  alone.lengths = {19};
  const Outcome single = run(alone, {qkv.begin(), qkv.begin() + 19 * row_width(setup.shape)});
  test::check_same_bits(single.context, {want.context.begin(),
                                         want.context.begin() + static_cast<std::ptrdiff_t>(single.context.size())});
}

TEST_CASE("keys and values land in their slots, rounded once") {
  const test::WithIsa isa(GENERATE(from_range(test::isa_paths())));
  Setup setup;
  setup.shape = {3, 1, 6};
  setup.dtype = DType::bf16;
  setup.lengths = {9};
  setup.page_size = 4;
  setup.page_order = 3;
  const Outcome got = run(setup, random_qkv(setup));
  for (std::int64_t t = 0; t < 9; ++t) {
    const std::int64_t slot = got.tables[0][static_cast<std::size_t>(t / 4)] * 4 + t % 4;
    const float* k = got.qkv.data() + t * row_width(setup.shape) + 18;
    for (std::int64_t e = 0; e < 6; ++e) {
      CHECK(got.keys.as<base::bf16>()[slot * 6 + e] == base::to_bf16(k[e]));
      CHECK(got.values.as<base::bf16>()[slot * 6 + e] == base::to_bf16(k[6 + e]));
    }
  }
}

TEST_CASE("a NaN in a key or value reaches every row that sees it, and no other") {
  const test::WithIsa isa(GENERATE(from_range(test::isa_paths())));
  const bool in_key = GENERATE(true, false);
  Setup setup;
  setup.shape = {2, 1, 8};
  setup.lengths = {20};
  std::vector<float> qkv = random_qkv(setup);
  const std::int64_t at = 11 * row_width(setup.shape) + (in_key ? 16 : 24);
  qkv[static_cast<std::size_t>(at)] = std::numeric_limits<float>::quiet_NaN();
  const Outcome got = run(setup, qkv);
  for (std::int64_t t = 0; t < 20; ++t) CHECK(std::isnan(got.context[static_cast<std::size_t>(t * 16)]) == (t >= 11));
}
