// Tests plans of attention: host arithmetic, the same in both programs.
#include "cuda/attention/attention_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "base/rng.h"
#include "support/catch.h"

namespace {

using namespace qrl;
using namespace qrl::cuda;

constexpr std::int64_t kPlenty = 1'000'000;

struct PlannedTick {
  std::vector<std::int32_t> positions, first_pages, page_ids;
  std::int64_t page_size = 16;

  /// Adds a sequence: `shared` pages from page `first_shared`, then pages of its own.
  void add(std::int32_t first_position, std::int32_t num_rows, std::int32_t first_shared = 0, std::int64_t shared = 0) {
    for (std::int32_t i = 0; i < num_rows; ++i) {
      positions.push_back(first_position + i);
      first_pages.push_back(static_cast<std::int32_t>(page_ids.size()));
    }
    const std::int64_t num_pages = (first_position + num_rows - 1) / page_size + 1;
    for (std::int64_t i = 0; i < num_pages; ++i)
      page_ids.push_back(i < shared ? first_shared + static_cast<std::int32_t>(i) : next_page++);
  }
  AttentionRows rows() const { return {positions, first_pages, page_ids, page_size}; }
  std::int32_t next_page = 100'000;
};

std::int64_t chunks_of(const PlannedTick& tick, std::int32_t row) {
  return tick.positions[static_cast<std::size_t>(row)] / kAttentionChunk + 1;
}

/// Returns "" if every row's chunks are covered once, from the right pages, and results have separate places. The lists
/// must not exceed the size that attention_room gives for any plan.
std::string fault(const PlannedTick& tick, const AttentionShape& shape, const AttentionPlan& plan,
                  std::int64_t max_partials) {
  const auto num_rows = static_cast<std::int64_t>(tick.positions.size());
  const AttentionRoom room =
      attention_room(shape, num_rows, 1 + *std::ranges::max_element(tick.positions), max_partials);
  if (std::ssize(plan.tiles) > room.tiles || std::ssize(plan.rows) > room.tile_rows) return "lists without room";
  std::map<std::pair<std::int32_t, std::int64_t>, int> covered;
  for (std::size_t i = 0; i < plan.tiles.size(); ++i) {
    const AttentionTile& tile = plan.tiles[i];
    const std::int64_t queries = tile.num_rows * shape.tile_heads();
    if (tile.num_rows < 1 || queries > max_tile_queries(shape.head_dim)) return "too many queries in a tile";
    if ((queries <= kSmallQueries) != (static_cast<std::int64_t>(i) < plan.num_small))
      return "small tiles are not first";
    const bool is_split =
        plan.partials_N[static_cast<std::size_t>(plan.rows[static_cast<std::size_t>(tile.first_row)])] >= 0;
    for (std::int32_t r = 0; r < tile.num_rows; ++r) {
      const std::int32_t row = plan.rows[static_cast<std::size_t>(tile.first_row) + static_cast<std::size_t>(r)];
      const auto at = static_cast<std::size_t>(row);
      if ((plan.partials_N[at] >= 0) != is_split) return "a tile of both kinds";
      if (!is_split && tile.first_chunk != 0) return "a whole row that does not begin at position 0";
      for (std::int64_t chunk = tile.first_chunk; chunk < tile.end_chunk; ++chunk) {
        if (chunk >= chunks_of(tick, row)) continue;  // only other rows of the tile attend to this chunk
        ++covered[{row, chunk}];
        const std::int64_t last = std::min<std::int64_t>((chunk + 1) * kAttentionChunk - 1, tick.positions[at]);
        for (std::int64_t page = chunk * kAttentionChunk / tick.page_size; page <= last / tick.page_size; ++page) {
          if (tick.page_ids[static_cast<std::size_t>(tile.first_page + page)] !=
              tick.page_ids[static_cast<std::size_t>(tick.first_pages[at] + page)])
            return "another row's pages";
        }
      }
    }
  }
  std::set<std::int64_t> places;
  std::vector<std::int32_t> split;
  for (std::size_t at = 0; at < tick.positions.size(); ++at) {
    const auto row = static_cast<std::int32_t>(at);
    for (std::int64_t chunk = 0; chunk < chunks_of(tick, row); ++chunk) {
      if (covered[{row, chunk}] != 1) return "row " + std::to_string(row) + ", chunk " + std::to_string(chunk);
      if (plan.partials_N[at] < 0) continue;
      const std::int64_t place = plan.partials_N[at] + chunk;
      if (place >= max_partials || !places.insert(place).second) return "a place that is not the row's own";
    }
    if (plan.partials_N[at] >= 0) split.push_back(row);
  }
  std::vector<std::int32_t> joined = plan.split_rows;
  std::ranges::sort(joined);
  return joined == split ? "" : "rows that are split are not those that are joined";
}

/// Returns the sum of the positions of keys and values that blocks read.
std::int64_t positions_read(const PlannedTick& tick, const AttentionPlan& plan) {
  std::int64_t sum = 0;
  for (const AttentionTile& tile : plan.tiles) {
    std::int64_t end = 0;
    for (std::int32_t r = 0; r < tile.num_rows; ++r) {
      const std::int32_t row = plan.rows[static_cast<std::size_t>(tile.first_row) + static_cast<std::size_t>(r)];
      end = std::max<std::int64_t>(end, tick.positions[static_cast<std::size_t>(row)] + 1);
    }
    sum += std::min<std::int64_t>(end, std::int64_t{tile.end_chunk} * kAttentionChunk) -
           std::int64_t{tile.first_chunk} * kAttentionChunk;
  }
  return sum;
}

}  // namespace

TEST_CASE("attention prefetch: stays within a third of L2, and covers the memory's latency") {
  using quant::KvFormat;
  constexpr std::int64_t kL2 = std::int64_t{50} << 20, kMultiprocessors = 132;  // H100 and H200
  // Bytes in flight at 4.8 TB/s and 0.7 us.
  constexpr std::int64_t kUnderWay = 3'400'000;
  for (const KvFormat format : {KvFormat::bf16, KvFormat::int8, KvFormat::fp8_e4m3}) {
    for (const std::int64_t head_dim : {64, 80, 128, 256}) {
      for (const bool is_small : {false, true}) {
        const std::int64_t bytes = kMultiprocessors * attention_blocks_at_once(format, head_dim, is_small) *
                                   rounds_ahead(format) * kRoundPositions * round_up(head_dim, 16) *
                                   quant::value_bytes(format);
        INFO(quant::name(format) << ", heads of " << head_dim << ": " << bytes);
        CHECK(bytes <= kL2 / 3);
        CHECK(bytes >= kUnderWay);
      }
    }
  }
}

TEST_CASE("attention plan: covers every row's chunks once, from its own pages") {
  base::RandomStream random(5, base::RandomPurpose::test, 0);
  for (int round = 0; round < 60; ++round) {
    const AttentionShape shapes[] = {{4, 4, 64}, {32, 8, 128}, {12, 1, 128}, {28, 4, 128}, {8, 1, 256}, {40, 1, 128}};
    const AttentionShape& shape = shapes[round % 6];
    PlannedTick tick;
    tick.page_size = 1 + static_cast<std::int64_t>(random.below(40));
    std::int32_t prompt = 0;
    for (int sequence = 0; sequence < 30; ++sequence) {
      if (random.below(4) == 0) prompt += 1000;
      const auto position = static_cast<std::int32_t>(random.below(random.below(2) == 0 ? 300 : 1500));
      const auto num_rows = random.below(5) == 0 ? static_cast<std::int32_t>(1 + random.below(50)) : 1;
      tick.add(position, num_rows, prompt, static_cast<std::int64_t>(random.below(900)) / tick.page_size);
    }
    for (const std::int64_t max_partials : {std::int64_t{0}, std::int64_t{40}, kPlenty}) {
      AttentionPlanner planner(shape, max_partials);
      CHECK(fault(tick, shape, planner.plan(tick.rows()), max_partials) == "");
      CHECK(fault(tick, shape, planner.plan(tick.rows()), max_partials) == "");  // nothing is left of the previous plan
    }
  }
}

TEST_CASE("attention plan: one chunk needs no second kernel, few long rows are split, many are not") {
  AttentionPlanner planner({32, 8, 128}, kPlenty);
  PlannedTick brief;
  for (int i = 0; i < 20; ++i) brief.add(i % 2 == 0 ? 255 : 3, 1);
  brief.add(200, 50);
  CHECK(planner.plan(brief.rows()).split_rows.empty());
  CHECK(planner.plan(brief.rows()).tiles.size() == 20 + 7);  // 50 rows, eight of them with 4 query heads a tile

  PlannedTick lonely;
  lonely.add(2047, 1);
  CHECK(planner.plan(lonely.rows()).tiles.size() == 8);
  lonely.positions[0] = 2048;
  lonely.page_ids.push_back(1);
  CHECK(planner.plan(lonely.rows()).tiles.size() == 9);

  // One warp joins a segment if there are few rows and they have several segments.
  CHECK(planner.plan(lonely.rows()).joins_segments);
  lonely.positions[0] = 2047;
  CHECK_FALSE(planner.plan(lonely.rows()).joins_segments);
  PlannedTick long_rows;
  for (int i = 0; i < 66; ++i) {
    long_rows.add(2048, 1);
    CHECK(planner.plan(long_rows.rows()).joins_segments == (i < 65));
  }

  PlannedTick many;
  for (int i = 0; i < 255; ++i) many.add(2047, 1);
  CHECK(planner.plan(many.rows()).split_rows.size() == 255);
  many.add(2047, 1);
  CHECK(planner.plan(many.rows()).split_rows.empty());
  CHECK(planner.plan(many.rows()).tiles.front() == AttentionTile{0, 1, 0, 0, 8});
  // Without memory for partial results nothing is split; with little memory only the first rows are.
  AttentionPlanner none({32, 8, 128}, 0), little({32, 8, 128}, 20);
  PlannedTick few;
  for (int i = 0; i < 4; ++i) few.add(2047, 1);
  CHECK(none.plan(few.rows()).tiles.size() == 4);
  CHECK(little.plan(few.rows()).split_rows == std::vector<std::int32_t>{0, 1});
}

TEST_CASE("attention plan: rows of a prompt and samples of a group read common pages once") {
  const AttentionShape shape{32, 8, 128};
  AttentionPlanner planner(shape, kPlenty), apart(shape, 0);
  PlannedTick prompt;
  prompt.add(0, 1024);
  CHECK(planner.plan(prompt.rows()).tiles.size() == 128);
  CHECK(positions_read(prompt, planner.plan(prompt.rows())) < 1024 * 1025 / 2 / 7);

  PlannedTick samples;
  for (int i = 0; i < 8; ++i) {
    samples.add(1200 + i, 1, 0, 1030 / 16);  // whole pages of a prompt of 1,030 tokens
    samples.add(700, 1);                     // other rows between them
  }
  const std::int64_t read_apart = positions_read(samples, apart.plan(samples.rows()));
  const AttentionPlan& plan = planner.plan(samples.rows());
  CHECK(fault(samples, shape, plan, kPlenty) == "");
  CHECK(read_apart - positions_read(samples, plan) == 7 * 1024);
  CHECK(std::ranges::count_if(plan.tiles, [](const AttentionTile& tile) { return tile.num_rows == 8; }) == 4);

  // Nine samples use tiles of five and four, not of eight and one.
  samples.add(1300, 1, 0, 1030 / 16);
  std::vector<std::int32_t> sizes;
  for (const AttentionTile& tile : planner.plan(samples.rows()).tiles) {
    if (tile.num_rows > 1 && tile.first_chunk == 0) sizes.push_back(tile.num_rows);
  }
  CHECK(sizes == std::vector<std::int32_t>{5, 4});
}
