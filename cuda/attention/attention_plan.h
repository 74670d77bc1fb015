// Owns the split of a tick's attention into blocks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cuda/runtime/layout.h"

namespace qrl::cuda {

/// Number of positions per chunk, and of chunks per segment. The first chunk and segment begin at position 0. A chunk's
/// scores share one maximum. The chunks of each segment are joined in order. Then the segments are joined in order.
/// Results therefore do not depend on the number of warps.
inline constexpr int kAttentionChunk = 256;
inline constexpr int kSegmentChunks = 8;

/// Maximum number of query vectors (rows × query heads of one kv head) in a small tile, and in any tile.
inline constexpr int kSmallQueries = 8;
constexpr int max_tile_queries(std::int64_t head_dim) { return head_dim <= 128 ? 32 : 16; }

/// Number of positions that a block's warps together process in one round. The first rounds of a chunk read its keys,
/// the later rounds its values.
inline constexpr int kRoundPositions = 64;
/// Returns how many blocks fit on a multiprocessor without spilling registers. A window takes more of them.
constexpr int attention_blocks_at_once(quant::KvFormat format, std::int64_t head_dim, bool is_small,
                                       bool is_windowed = false) {
  if (!is_small || head_dim > 128) return 2;
  return (format == quant::KvFormat::fp8_e4m3 ? 4 : 3) - (is_windowed ? 1 : 0);
}
/// Returns how many rounds ahead a block prefetches to L2. The prefetches of all blocks together must stay well below
/// L2's size.
constexpr int rounds_ahead(quant::KvFormat format) { return format == quant::KvFormat::bf16 ? 2 : 4; }

struct AttentionShape {
  std::int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  QRL_HD std::int64_t heads_of_kv() const { return num_heads / num_kv_heads; }
  /// tile_heads: query heads per block, all of one kv head. heads_tiles: blocks per kv head. tile_rows: rows per block.
  std::int64_t tile_heads() const {
    return heads_of_kv() < max_tile_queries(head_dim) ? heads_of_kv() : max_tile_queries(head_dim);
  }
  std::int64_t heads_tiles() const { return ceil_div(heads_of_kv(), tile_heads()); }
  std::int64_t tile_rows() const { return max_tile_queries(head_dim) / tile_heads(); }
};

/// Returns how many chunk results have memory: enough for num_rows rows of num_positions positions, but at most 64 MiB.
/// Rows whose results do not fit are not split.
std::int64_t num_attention_partials(std::int64_t num_heads, std::int64_t head_dim, std::int64_t num_rows,
                                    std::int64_t num_positions);

/// Describes a block's work for one kv head. If heads_tiles() exceeds 1, that many blocks share the work. The tile's
/// rows are the num_rows entries of AttentionPlan::rows from first_row on. They share the pages of chunks [first_chunk,
/// end_chunk) and attend to these chunks. page_ids[first_page] is the page of position 0.
struct AttentionTile {
  std::int32_t first_row = 0, num_rows = 0, first_page = 0, first_chunk = 0, end_chunk = 0;
  friend bool operator==(const AttentionTile&, const AttentionTile&) = default;
};

/// Holds a tick's tiles. All chunks of an unsplit row are in one tile, and partials_N[row] is −1. For a split row, each
/// chunk c has a partial result, with index partials_N[row] + c in AttentionTask. A second kernel joins the row's
/// partial results.
struct AttentionPlan {
  std::vector<AttentionTile> tiles;  ///< small tiles, then large tiles; each kind longest first
  std::int64_t num_small = 0;
  std::vector<std::int32_t> rows;
  std::vector<std::int32_t> partials_N;
  std::vector<std::int32_t> split_rows;
  /// If set, one warp joins each segment of a split row and head. Otherwise one warp joins all their segments. It is
  /// set if split rows are few and some have several segments.
  bool joins_segments = false;
};

struct AttentionCounts {
  std::int32_t num_small = 0, num_large = 0;
  std::int32_t num_split = 0;
};
inline AttentionCounts counts_of(const AttentionPlan& plan) {
  return {static_cast<std::int32_t>(plan.num_small),
          static_cast<std::int32_t>(plan.tiles.size()) - static_cast<std::int32_t>(plan.num_small),
          static_cast<std::int32_t>(plan.split_rows.size())};
}

/// Holds sizes that suffice for any plan of num_rows rows. tile_blocks: number of blocks per kv head, which loop over
/// tiles. It suffices to keep the device busy. If the rows are too many to split, it suffices for one block per tile.
struct AttentionRoom {
  std::int64_t tiles = 0, tile_rows = 0, tile_blocks = 0;
};
AttentionRoom attention_room(const AttentionShape& shape, std::int64_t num_rows, std::int64_t max_positions,
                             std::int64_t max_partials);

/// The part of a tick (decode_engine.h) that determines its attention plan.
struct AttentionRows {
  std::span<const std::int32_t> positions_N, first_page_N, page_ids;
  std::int64_t page_size = 0;
};

/// Consecutive rows of one sequence (chunked prefill) form tiles of tile_rows() rows. Single rows whose sequences share
/// the pages of their first chunks (samples of a prompt) share tiles for those chunks.
class AttentionPlanner {
 public:
  /// max_partials: number of chunk results that have memory. Rows whose results do not fit are not split and share no
  /// tiles.
  AttentionPlanner(const AttentionShape& shape, std::int64_t max_partials)
      : shape_(shape), max_partials_(max_partials) {}
  /// Returns a tick's plan, valid until the next call. The caller checks that all positions have pages.
  const AttentionPlan& plan(const AttentionRows& rows);

 private:
  struct RowRange {
    std::int32_t first_row = 0, num_rows = 0;
  };
  void find_ranges(const AttentionRows& rows);
  void find_groups(const AttentionRows& rows);
  std::int64_t shared_chunks(const AttentionRows& rows, std::int32_t a, std::int32_t b) const;
  bool reserve_partials(const AttentionRows& rows, std::span<const std::int32_t> of);
  void add_tile(const AttentionRows& rows, std::span<const std::int32_t> of, std::int64_t first_chunk,
                std::int64_t end_chunk, bool each_apart);
  void add_alone(const AttentionRows& rows, std::span<const std::int32_t> of, bool each_apart);
  void add_group(const AttentionRows& rows, std::span<const std::int32_t> of, std::int64_t num_shared, bool each_apart);

  AttentionShape shape_;
  std::int64_t max_partials_, num_partials_ = 0;
  AttentionPlan plan_;
  std::vector<RowRange> prompts_;      // ranges of several consecutive rows
  std::vector<std::int32_t> singles_;  // single rows, ordered by their first page
  struct Group {
    std::int32_t first = 0, count = 0, num_shared = 0;  // range of singles_; number of chunks that it shares
  };
  std::vector<Group> groups_;
  std::vector<std::int32_t> range_rows_;
};

}  // namespace qrl::cuda
