// Tests the cache of ticks' graphs: how much memory they take, which one leaves, and how many ticks still find one.
#include "cuda/engine/graph_cache.h"

#include <algorithm>
#include <set>

#include "engine_fixtures.h"

namespace {

using namespace qrl;
using namespace qrl::cuda;
using namespace qrl::cuda::test;

#if defined(QRL_CUDA_EMULATED)
/// Counts what a cache did with a sequence of ticks.
struct Counts {
  std::int64_t num_ticks = 0, by_graph = 0, recorded = 0;
  std::size_t most_bytes = 0;
  double share() const { return static_cast<double>(by_graph) / static_cast<double>(num_ticks); }
};

/// Runs a tick's launches for each shape, two ticks in flight at a time, as the decoder does.
Counts run_shapes(const std::vector<target::TickShape>& shapes, std::size_t limit_bytes, int num_launches) {
  const target::Stream stream;
  const target::Memory memory(64);
  target::GraphCache cache(limit_bytes);
  Counts counts;
  for (const target::TickShape& shape : shapes) {
    const std::int64_t tick = counts.num_ticks++;
    const auto record = [&] {
      for (int i = 0; i < num_launches; ++i) target::fill_zero(memory.data(), 64, stream);
    };
    if (tick % 2 == 0) stream.wait();
    if (!cache.was_seen(shape)) continue;
    counts.recorded += cache.launch(shape, tick, tick - tick % 2, stream, record) ? 1 : 0;
    ++counts.by_graph;
    counts.most_bytes = std::max(counts.most_bytes, cache.num_bytes());
  }
  stream.wait();
  return counts;
}

/// Returns the shapes of ticks of random numbers of rows, each row at a random position.
std::vector<target::TickShape> random_shapes(int count) {
  EngineOptions options;
  options.model.num_attention_heads = 32;
  options.model.num_key_value_heads = 8;
  options.model.head_dim = 16;
  options.max_rows = options.max_sequences = 256;
  options.max_positions = 2048;
  options.page_size = 64;
  target::TickMemory memory(options);
  const target::Stream stream;
  base::RandomStream random(3, base::RandomPurpose::test, 5);
  std::vector<target::TickShape> shapes;
  for (int tick = 0; tick < count; ++tick) {
    const auto num_rows = 1 + random.below(256);
    const auto longest = 1 + random.below(2048);
    std::vector<std::int32_t> positions, first_pages, page_ids, rows;
    for (std::uint32_t row = 0; row < num_rows; ++row) {
      positions.push_back(static_cast<std::int32_t>(random.below(longest)));
      first_pages.push_back(static_cast<std::int32_t>(page_ids.size()));
      rows.push_back(static_cast<std::int32_t>(row));
      for (std::int32_t page = 0; page <= positions.back() / 64; ++page)
        page_ids.push_back(static_cast<std::int32_t>(page_ids.size()));
    }
    const std::vector<std::int32_t> tokens(num_rows, 1);
    const std::vector<double> uniforms(num_rows, 0.5);
    const std::vector<float> temperatures(num_rows, 1.0F);
    shapes.push_back(
        memory.send({tokens, positions, first_pages, page_ids, {}}, {rows, uniforms, temperatures}, stream).shape);
    stream.wait();
  }
  return shapes;
}
#endif

}  // namespace

#if defined(QRL_CUDA_EMULATED)
TEST_CASE("graph cache: 2,000 ticks of random rows and lengths stay within the plan, and nearly all hit") {
  // A tenth of a tick of 8B, within a tenth of the plan.
  constexpr int kLaunches = 45;
  constexpr std::size_t kPlanned = kGraphBytes / 10;
  const std::vector<target::TickShape> shapes = random_shapes(2000);
  const std::int64_t ended_before = target::graphs_ended_while_running();
  const Counts unbounded = run_shapes(shapes, SIZE_MAX, kLaunches), planned = run_shapes(shapes, kPlanned, kLaunches);
  CHECK(planned.most_bytes <= kPlanned);
  CHECK(planned.share() >= 0.98 * unbounded.share());
  // Half of what all graphs take: some leave, and most ticks still find theirs.
  const Counts half = run_shapes(shapes, unbounded.most_bytes / 2, kLaunches);
  INFO(std::set(shapes.begin(), shapes.end()).size() << " shapes, " << (unbounded.most_bytes >> 10) << " KiB, recorded "
                                                     << unbounded.recorded << " and " << half.recorded);
  CHECK(half.most_bytes <= unbounded.most_bytes / 2);
  CHECK(half.recorded > unbounded.recorded);
  CHECK(half.recorded * 4 < half.by_graph);
  CHECK(target::graphs_ended_while_running() == ended_before);
}

TEST_CASE("graph cache: evicts the least launched graph, the older of two equal, never one that may be running") {
  const target::Stream stream;
  const target::Memory memory(64);
  const auto record = [&] { target::fill_zero(memory.data(), 64, stream); };
  const auto shape = [](std::int64_t rows) { return target::TickShape{.rows = rows}; };
  const target::Graph one(stream, record);
  target::GraphCache cache(2 * one.num_bytes());
  std::int64_t tick = 0;
  const auto launch = [&](std::int64_t rows, bool others_run = false) {
    (void)cache.was_seen(shape(rows));
    const std::int64_t first_unfinished = others_run ? 0 : tick;
    if (!others_run) stream.wait();
    return cache.launch(shape(rows), tick++, first_unfinished, stream, record);
  };
  CHECK_FALSE(cache.was_seen(shape(8)));
  CHECK(cache.was_seen(shape(8)));
  for (int i = 0; i < 8; ++i) CHECK(launch(8) == (i == 0));
  CHECK(launch(16));
  CHECK_FALSE(launch(16));
  CHECK(launch(24));  // 16 leaves, with two launches of eight
  CHECK_FALSE(launch(8));
  CHECK(launch(16));  // 24 leaves
  CHECK_FALSE(launch(8));
  CHECK(cache.num_graphs() == 2);
  const std::int64_t ended_before = target::graphs_ended_while_running();
  CHECK(launch(32, true));  // may exceed the limit, because both others may be running
  CHECK(cache.num_graphs() == 3);
  CHECK(target::graphs_ended_while_running() == ended_before);
  stream.wait();
  CHECK(launch(40));
  CHECK(cache.num_graphs() == 2);
  CHECK(cache.num_bytes() == 2 * one.num_bytes());
  cache.clear();
  CHECK(cache.num_bytes() == 0);
  CHECK_FALSE(cache.was_seen(shape(8)));
}
#endif

TEST_CASE("graph cache: eviction changes no token") {
  if (!find_device()) return;
  model::ModelConfig config = decoder::test::tiny_config();
  config.num_hidden_layers = 1;
  const auto snapshot = decoder::test::publish(config, decoder::test::tiny_weights(config), Format::int8);
  std::vector<types::SampleRequest> requests;
  const std::vector<std::vector<types::TokenId>> prompts = {random_tokens(2, 1), random_tokens(3, 2)};
  for (std::size_t i = 0; i < prompts.size(); ++i) requests.push_back({i + 5, prompts[i], 0, 10});
  DecoderOptions options = options_of(KvFormat::int8, 200);
  options.max_num_seqs = 20;
  options.max_num_batched_tokens = 24;
  types::SamplingParams params = sampling();
  params.stop_tokens = {3, 11, 19, 25, 40, 51, 60};
  params.max_new_tokens = 14;
  std::vector<types::Completion> want;
  std::int64_t num_graphs = 0;
  for (const std::size_t limit_bytes : {kGraphBytes, std::size_t{1}}) {
    cuda::EngineOptions of_engine = decoder::engine_options(config, options);
    of_engine.graph_bytes = limit_bytes;
    auto engine = target::make_device_engine(of_engine);
    const cuda::EngineStats& stats = engine->stats();
    decoder::Decoder decoder(config, options, decoder::make_device_backend(config, options, std::move(engine)));
    decoder.load(*snapshot);
    for (int round = 0; round < 2; ++round) {
      const auto got = decoder.complete(requests, params, {7, 2});
      if (want.empty()) want = got;
      REQUIRE(got.size() == want.size());
      for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i].tokens == want[i].tokens);
    }
    CHECK(stats.graph_ticks > 0);
    CHECK(stats.held_graphs >= 1);
    if (limit_bytes == kGraphBytes) num_graphs = stats.num_graphs;
#if defined(QRL_CUDA_EMULATED)  // where a graph's memory is known
    else CHECK((stats.num_graphs > num_graphs && stats.held_graphs <= 2));
#endif
  }
  CHECK(num_graphs >= 2);
}
