// Owns the split of a tick's attention into blocks. Host arithmetic only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cuda/runtime/layout.h"

namespace qrl::cuda {

/// Positions per chunk, and chunks per segment, both counted from position 0. A chunk's scores share one maximum. A
/// segment's chunks are joined in order, then the segments, so bits do not depend on the number of warps.
inline constexpr int kAttentionChunk = 256;
inline constexpr int kSegmentChunks = 8;

/// Maximum number of query vectors (rows × query heads of one kv head) in a small tile, and in any tile.
inline constexpr int kSmallQueries = 8;
constexpr int max_tile_queries(std::int64_t head_dim) { return head_dim <= 128 ? 32 : 16; }

/// Positions that a block's warps process per round. The rounds of a chunk cover its keys, then its values.
inline constexpr int kRoundPositions = 64;
/// Returns how many blocks fit on a multiprocessor without spilling registers.
constexpr int attention_blocks_at_once(quant::KvFormat format, std::int64_t head_dim, bool is_small) {
  return !is_small || head_dim > 128 ? 2 : format == quant::KvFormat::fp8_e4m3 ? 4 : 3;
}
/// Returns how many rounds ahead blocks prefetch to L2. All blocks' prefetches must stay well below L2's size.
constexpr int rounds_ahead(quant::KvFormat format) { return format == quant::KvFormat::bf16 ? 2 : 4; }

struct AttentionShape {
  std::int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  QRL_HD std::int64_t heads_of_kv() const { return num_heads / num_kv_heads; }
  /// Return the query heads per block (of one kv head), the blocks per kv head, and the rows per block.
  std::int64_t tile_heads() const {
    return heads_of_kv() < max_tile_queries(head_dim) ? heads_of_kv() : max_tile_queries(head_dim);
  }
  std::int64_t heads_tiles() const { return ceil_div(heads_of_kv(), tile_heads()); }
  std::int64_t tile_rows() const { return max_tile_queries(head_dim) / tile_heads(); }
};

/// Returns how many chunk results get memory: those of num_rows rows, but at most 64 MiB. Rows beyond that are not
/// split.
std::int64_t num_attention_partials(std::int64_t num_heads, std::int64_t head_dim, std::int64_t num_rows,
                                    std::int64_t num_positions);

/// Describes a block's work, repeated for each kv head (× heads_tiles). num_rows entries of AttentionPlan::rows attend
/// to chunks [first_chunk, end_chunk), whose pages they share. page_ids[first_page] is the page of position 0.
struct AttentionTile {
  std::int32_t first_row = 0, num_rows = 0, first_page = 0, first_chunk = 0, end_chunk = 0;
  friend bool operator==(const AttentionTile&, const AttentionTile&) = default;
};

/// Holds a tick's tiles. All chunks of an unsplit row are in one tile, and its partials_N is −1. Chunk c of a split
/// row has index partials_N[row] + c in AttentionTask's partial results; a second kernel joins them.
struct AttentionPlan {
  std::vector<AttentionTile> tiles;  ///< small tiles (kSmallQueries), then large ones; each kind longest first
  std::int64_t num_small = 0;
  std::vector<std::int32_t> rows;
  std::vector<std::int32_t> partials_N;
  std::vector<std::int32_t> split_rows;
  /// If set, each segment of a split row and head has its own joining warp: split rows are few, and some long.
  /// Otherwise one warp joins all segments.
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

/// Holds limits for any plan of num_rows rows. tile_blocks: the launch's blocks per kv head, which loop over tiles.
/// They keep the device busy; if the rows are too many to split, each tile has its own block.
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
  /// max_partials: number of chunk results that have memory. Rows beyond that are not split and share no tiles.
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
    std::int32_t first = 0, count = 0, num_shared = 0;  // range of singles_; number of shared chunks
  };
  std::vector<Group> groups_;
  std::vector<std::int32_t> range_rows_;
};

}  // namespace qrl::cuda
