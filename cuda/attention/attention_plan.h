// Owns the split of a tick's attention into blocks: which rows read which chunk of positions together. Host arithmetic
// and plain structs; knows nothing of kernels or of device memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cuda/runtime/layout.h"

namespace qrl::cuda {

/// Positions of a chunk, counted from position 0. Scores of a chunk share one maximum. The chunks of a segment are
/// joined in order, then the segments in order. So several warps can join a long row, with the bits of one.
inline constexpr int kAttentionChunk = 256;
inline constexpr int kSegmentChunks = 8;

/// Query vectors (rows × query heads of a kv head) of a small tile, and of any tile.
inline constexpr int kSmallQueries = 8;
constexpr int max_tile_queries(std::int64_t head_dim) { return head_dim <= 128 ? 32 : 16; }

/// Positions that a block's warps take in one round. A chunk is so many rounds over keys, then as many over values.
inline constexpr int kRoundPositions = 64;
/// Blocks of a kernel that share a multiprocessor's registers: more would spill.
constexpr int attention_blocks_at_once(quant::KvFormat format, std::int64_t head_dim, bool is_small) {
  return !is_small || head_dim > 128 ? 2 : format == quant::KvFormat::fp8_e4m3 ? 4 : 3;
}
/// How many rounds ahead of its own a block prefetches keys or values to L2. All blocks of a device together must stay
/// well below its L2: lines beyond that are evicted before they are used, and read twice.
constexpr int rounds_ahead(quant::KvFormat format) { return format == quant::KvFormat::bf16 ? 2 : 4; }
constexpr std::int64_t prefetched_bytes(quant::KvFormat format, std::int64_t head_dim, bool is_small,
                                        std::int64_t num_multiprocessors) {
  const std::int64_t round_bytes = kRoundPositions * round_up(head_dim, 16) * quant::value_bytes(format);
  return num_multiprocessors * attention_blocks_at_once(format, head_dim, is_small) * rounds_ahead(format) *
         round_bytes;
}

struct AttentionShape {
  std::int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  QRL_HD std::int64_t heads_of_kv() const { return num_heads / num_kv_heads; }
  /// Query heads of a kv head that one block takes, and how many such blocks a kv head needs.
  std::int64_t tile_heads() const {
    return heads_of_kv() < max_tile_queries(head_dim) ? heads_of_kv() : max_tile_queries(head_dim);
  }
  std::int64_t heads_tiles() const { return ceil_div(heads_of_kv(), tile_heads()); }
  std::int64_t tile_rows() const { return max_tile_queries(head_dim) / tile_heads(); }
};

/// Chunks' results that there is memory for: all of num_rows rows, up to 64 MiB. Rows beyond that are not split.
std::int64_t num_attention_partials(std::int64_t num_heads, std::int64_t head_dim, std::int64_t num_rows,
                                    std::int64_t num_positions);

/// The work of a block, once for each kv head (× heads_tiles): rows[first_row …) of the plan over chunks [first_chunk,
/// end_chunk). All of the rows have the same pages there. page_ids[first_page] is the first of the whole sequence.
struct AttentionTile {
  std::int32_t first_row = 0, num_rows = 0, first_page = 0, first_chunk = 0, end_chunk = 0;
  friend bool operator==(const AttentionTile&, const AttentionTile&) = default;
};

/// A row is in one tile that joins all its chunks (partials_N −1). Or it is among split_rows: its chunks' results go to
/// partials partials_N[row] + chunk, and a second kernel joins them. Neither this choice nor the other rows of a tile
/// change a bit of the result: the arithmetic of a chunk is the same, and so is the order of chunks and segments.
struct AttentionPlan {
  std::vector<AttentionTile> tiles;  ///< those of at most kSmallQueries first; in each kind the longest first
  std::int64_t num_small = 0;
  std::vector<std::int32_t> rows;
  std::vector<std::int32_t> partials_N;
  std::vector<std::int32_t> split_rows;
  /// The split rows are so few and long that a warp joins a segment of a row's head. Else it joins all of them.
  bool joins_segments = false;
};

/// The numbers of a plan that kernels read, besides its lists.
struct AttentionCounts {
  std::int32_t num_small = 0, num_large = 0;  ///< tiles of either kind
  std::int32_t num_split = 0;
};
inline AttentionCounts counts_of(const AttentionPlan& plan) {
  return {static_cast<std::int32_t>(plan.num_small),
          static_cast<std::int32_t>(plan.tiles.size()) - static_cast<std::int32_t>(plan.num_small),
          static_cast<std::int32_t>(plan.split_rows.size())};
}

/// Room for every plan of num_rows rows, each row of a sequence of its own. tile_blocks: the blocks that keep a device
/// busy and take further tiles in turn, or one for each tile where rows are many and therefore not split.
struct AttentionRoom {
  std::int64_t tiles = 0, tile_rows = 0, tile_blocks = 0;
};
AttentionRoom attention_room(const AttentionShape& shape, std::int64_t num_rows, std::int64_t max_positions,
                             std::int64_t max_partials);

/// The part of a tick (decode_engine.h) that a plan follows from.
struct AttentionRows {
  std::span<const std::int32_t> positions_N, first_page_N, page_ids;
  std::int64_t page_size = 0;
};

/// Makes the plans of a decoder's ticks. It is kept from tick to tick for its memory.
///
/// Consecutive rows of one sequence (a prompt's chunk) are tiles of tile_rows() rows. Single rows of sequences whose
/// first chunks lie in the same pages (samples of a prompt) read those chunks in common tiles, and the rest alone. A
/// chunk is shared when all of its pages are.
class AttentionPlanner {
 public:
  /// max_partials: how many there is memory for; rows beyond that are not split and share nothing.
  AttentionPlanner(const AttentionShape& shape, std::int64_t max_partials)
      : shape_(shape), max_partials_(max_partials) {}
  /// Valid until the next call. Positions must have pages (the caller's check).
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
  std::vector<RowRange> prompts_;      // ranges of more than one row
  std::vector<std::int32_t> singles_;  // rows alone, samples of a group side by side
  struct Group {
    std::int32_t first = 0, count = 0, num_shared = 0;  // of singles_
  };
  std::vector<Group> groups_;
  std::vector<std::int32_t> range_rows_;
};

}  // namespace qrl::cuda
