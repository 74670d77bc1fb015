#include "cuda/attention/attention_plan.h"

#include <algorithm>
#include <numeric>

namespace qrl::cuda {

namespace {

// kWave: number of thread blocks that keep an H100 busy, about four per multiprocessor.
//
// Decoding rows are not split if a tick has at least kEnoughForRows blocks, nearly four waves: a partly filled last
// wave then costs little. Tiles of prompts are not split if the tick's blocks fill one wave.
constexpr std::int64_t kWave = 4 * 132;
constexpr std::int64_t kEnoughForRows = 256 * 8, kEnoughForPrompts = kWave;
static_assert(kEnoughForRows > 3 * kWave);
// Number of warps that keep an H100 busy in the joining kernel: 16 per multiprocessor. The kernel has one warp per row
// and head.
constexpr std::int64_t kEnoughToJoin = 16 * 132;

std::int64_t num_chunks(const AttentionRows& rows, std::int32_t row) {
  return rows.positions_N[static_cast<std::size_t>(row)] / kAttentionChunk + 1;
}

std::int32_t page_at(const AttentionRows& rows, std::int32_t row, std::int64_t idx) {
  return rows.page_ids[static_cast<std::size_t>(rows.first_page_N[static_cast<std::size_t>(row)] + idx)];
}

}  // namespace

std::int64_t num_attention_partials(std::int64_t num_heads, std::int64_t head_dim, std::int64_t num_rows,
                                    std::int64_t num_positions) {
  constexpr std::int64_t kMostBytes = std::int64_t{64} << 20, kFloatBytes = 4;
  const std::int64_t num_chunks = ceil_div(num_positions, kAttentionChunk);
  const std::int64_t partial_floats = num_heads * (head_dim + 2);  // a context and Stats per head
  return num_chunks == 1 ? 0 : std::min(num_rows * num_chunks, kMostBytes / (partial_floats * kFloatBytes));
}

AttentionRoom attention_room(const AttentionShape& shape, std::int64_t num_rows, std::int64_t max_positions,
                             std::int64_t max_partials) {
  const std::int64_t num_partials = std::min(max_partials, num_rows * ceil_div(max_positions, kAttentionChunk));
  // An unsplit row has at most one tile, and a split row at most one tile per partial result. A split row has up to two
  // entries in AttentionPlan::rows: one for the chunks that it shares, one for all others.
  AttentionRoom room{num_rows + num_partials, 2 * num_rows, 0};
  const std::int64_t blocks_a_tile = shape.num_kv_heads * shape.heads_tiles();
  room.tile_blocks = std::min(room.tiles, std::max(2 * num_rows, ceil_div(kEnoughForRows, blocks_a_tile)));
  return room;
}

void AttentionPlanner::find_ranges(const AttentionRows& rows) {
  prompts_.clear();
  singles_.clear();
  const auto num_rows = static_cast<std::int32_t>(rows.positions_N.size());
  for (std::int32_t first = 0; first < num_rows;) {
    std::int32_t end = first + 1;
    const auto follows = [&](std::int32_t row) {
      const auto at = static_cast<std::size_t>(row);
      return rows.first_page_N[at] == rows.first_page_N[at - 1] && rows.positions_N[at] == rows.positions_N[at - 1] + 1;
    };
    while (end < num_rows && follows(end)) ++end;
    if (end - first == 1) singles_.push_back(first);
    else prompts_.push_back({first, end - first});
    first = end;
  }
}

std::int64_t AttentionPlanner::shared_chunks(const AttentionRows& rows, std::int32_t a, std::int32_t b) const {
  const std::int64_t num_positions =
      1 + std::min(rows.positions_N[static_cast<std::size_t>(a)], rows.positions_N[static_cast<std::size_t>(b)]);
  const std::int64_t num_pages = ceil_div(num_positions, rows.page_size);
  std::int64_t same = 0;
  while (same < num_pages && page_at(rows, a, same) == page_at(rows, b, same)) ++same;
  return std::min(same * rows.page_size, num_positions) / kAttentionChunk;
}

void AttentionPlanner::find_groups(const AttentionRows& rows) {
  std::ranges::stable_sort(singles_, {}, [&](std::int32_t row) { return page_at(rows, row, 0); });
  groups_.clear();
  for (std::size_t i = 0; i < singles_.size(); ++i) {
    if (!groups_.empty()) {
      Group& group = groups_.back();
      const auto shared =
          static_cast<std::int32_t>(shared_chunks(rows, singles_[static_cast<std::size_t>(group.first)], singles_[i]));
      if (shared > 0 && (group.count == 1 || shared >= group.num_shared)) {
        if (group.count == 1) group.num_shared = shared;
        ++group.count;
        continue;
      }
    }
    groups_.push_back({static_cast<std::int32_t>(i), 1, 0});
  }
}

/// Reserves memory for all chunk results of these rows. If the results do not fit, reserves nothing and returns false.
bool AttentionPlanner::reserve_partials(const AttentionRows& rows, std::span<const std::int32_t> of) {
  std::int64_t wanted = 0;
  for (const std::int32_t row : of) wanted += num_chunks(rows, row);
  if (num_partials_ + wanted > max_partials_) return false;
  for (const std::int32_t row : of) {
    plan_.partials_N[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(num_partials_);
    plan_.split_rows.push_back(row);
    num_partials_ += num_chunks(rows, row);
  }
  return true;
}

void AttentionPlanner::add_tile(const AttentionRows& rows, std::span<const std::int32_t> of, std::int64_t first_chunk,
                                std::int64_t end_chunk, bool each_apart) {
  const auto first_row = static_cast<std::int32_t>(plan_.rows.size());
  plan_.rows.insert(plan_.rows.end(), of.begin(), of.end());
  const std::int64_t step = each_apart ? 1 : end_chunk - first_chunk;
  for (std::int64_t chunk = first_chunk; chunk < end_chunk; chunk += step) {
    plan_.tiles.push_back({first_row, static_cast<std::int32_t>(of.size()),
                           rows.first_page_N[static_cast<std::size_t>(of.front())], static_cast<std::int32_t>(chunk),
                           static_cast<std::int32_t>(chunk + step)});
  }
}

void AttentionPlanner::add_alone(const AttentionRows& rows, std::span<const std::int32_t> of, bool each_apart) {
  const std::int64_t chunks = num_chunks(rows, of.back());
  add_tile(rows, of, 0, chunks, each_apart && chunks > 1 && reserve_partials(rows, of));
}

void AttentionPlanner::add_group(const AttentionRows& rows, std::span<const std::int32_t> of, std::int64_t num_shared,
                                 bool each_apart) {
  if (of.size() == 1 || !reserve_partials(rows, of)) {
    for (std::size_t i = 0; i < of.size(); ++i) add_alone(rows, of.subspan(i, 1), each_apart);
    return;
  }
  add_tile(rows, of, 0, num_shared, each_apart);
  for (std::size_t i = 0; i < of.size(); ++i) {
    const std::int64_t chunks = num_chunks(rows, of[i]);
    if (chunks > num_shared) add_tile(rows, of.subspan(i, 1), num_shared, chunks, each_apart);
  }
}

const AttentionPlan& AttentionPlanner::plan(const AttentionRows& rows) {
  plan_.tiles.clear();
  plan_.rows.clear();
  plan_.split_rows.clear();
  plan_.partials_N.assign(rows.positions_N.size(), -1);
  num_partials_ = 0;
  find_ranges(rows);
  find_groups(rows);

  const auto tile_rows = static_cast<std::size_t>(shape_.tile_rows());
  auto num_tiles = static_cast<std::int64_t>(singles_.size());
  for (const RowRange& range : prompts_) num_tiles += ceil_div(range.num_rows, shape_.tile_rows());
  const std::int64_t num_blocks = num_tiles * shape_.num_kv_heads * shape_.heads_tiles();

  for (const Group& group : groups_) {
    std::span<const std::int32_t> left =
        std::span(singles_).subspan(static_cast<std::size_t>(group.first), static_cast<std::size_t>(group.count));
    const std::size_t num_parts = (left.size() + tile_rows - 1) / tile_rows;
    const std::size_t part = (left.size() + num_parts - 1) / num_parts;
    for (; !left.empty(); left = left.subspan(std::min(part, left.size())))
      add_group(rows, left.first(std::min(part, left.size())), group.num_shared, num_blocks < kEnoughForRows);
  }
  for (const RowRange& range : prompts_) {
    range_rows_.resize(static_cast<std::size_t>(range.num_rows));
    std::iota(range_rows_.begin(), range_rows_.end(), range.first_row);
    for (std::span<const std::int32_t> left = range_rows_; !left.empty();
         left = left.subspan(std::min(tile_rows, left.size())))
      add_alone(rows, left.first(std::min(tile_rows, left.size())), num_blocks < kEnoughForPrompts);
  }

  const auto is_small = [&](const AttentionTile& tile) { return tile.num_rows * shape_.tile_heads() <= kSmallQueries; };
  const auto large = std::stable_partition(plan_.tiles.begin(), plan_.tiles.end(), is_small);
  const auto is_longer = [](const AttentionTile& a, const AttentionTile& b) {
    return a.end_chunk - a.first_chunk > b.end_chunk - b.first_chunk;
  };
  std::stable_sort(plan_.tiles.begin(), large, is_longer);
  std::stable_sort(large, plan_.tiles.end(), is_longer);
  plan_.num_small = large - plan_.tiles.begin();
  plan_.joins_segments =
      std::ssize(plan_.split_rows) * shape_.num_heads < kEnoughToJoin &&
      std::ranges::any_of(plan_.split_rows, [&](std::int32_t row) { return num_chunks(rows, row) > kSegmentChunks; });
  return plan_;
}

}  // namespace qrl::cuda
