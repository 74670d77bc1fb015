// A thread block computes query heads of one kv head. It loops over tiles of the plan.
//
// Keys and values go from device memory to registers. Shared memory holds the queries, but no keys or values. Each lane
// dequantizes its own 16-byte loads to mma fragments; this fixes the order of sums.
#include <cmath>

#include "cuda/attention/attention_join.cuh"
#include "cuda/attention/attention_task.h"
#include "cuda/attention/attention_tile.cuh"
#include "cuda/runtime/target.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

/// Describes a block's work. Uses 32-bit indices where possible, to save instructions and registers.
struct Block {
  AttentionTile tile;
  int kv_head, num_queries;
  QRL_DEVICE Block(const AttentionTask& task, std::int64_t tile_idx) : tile(task.work.tiles[tile_idx]) {
    const auto num_kv_heads = static_cast<unsigned>(task.pages.at.num_kv_heads);
    kv_head = static_cast<int>(static_cast<unsigned>(block_y()) % num_kv_heads);
    num_queries = tile.num_rows * heads(task).count;
  }
  struct Heads {
    int first, count;
  };
  QRL_DEVICE Heads heads(const AttentionTask& task) const {
    const auto num_kv_heads = static_cast<unsigned>(task.pages.at.num_kv_heads);
    const int all = static_cast<int>(static_cast<unsigned>(task.num_heads) / num_kv_heads);
    const int most = max_tile_queries(task.pages.head_dim),
              skipped = static_cast<int>(static_cast<unsigned>(block_y()) / num_kv_heads) * most;
    return {kv_head * all + skipped, all - skipped < most ? all - skipped : most};
  }
};

template <class Memory>
QRL_DEVICE void name_queries(const AttentionTask& task, const Block& block, Memory& shared) {
  const typename Block::Heads heads = block.heads(task);
  for (int query = thread_idx(); query < shared.kQueries; query += kThreads) {
    shared.last_position[query] = -1;
    if (query >= block.num_queries) continue;
    shared.row[query] = task.work.rows[block.tile.first_row + query / heads.count];
    shared.head[query] = heads.first + query % heads.count;
    shared.last_position[query] = task.where.positions[shared.row[query]];
  }
}

/// Writes the queries to shared memory as mma fragments. Writes the factor of each query's scores to score_scales.
/// Fragments past the last query stay uninitialized.
template <KvFormat format, int kDim, int kTiles>
QRL_DEVICE void bring_queries(const AttentionTask& task, const Block& block, float key_scale,
                              Shared<format, kDim, kTiles>& shared) {
  using S = Share<format, kDim>;
  using Elements = KvElements<format>;
  const auto width = static_cast<int>(task.pages.head_dim);
  const float softmax_scale = task.score_scale * key_scale;
  for (int query = warp_idx(); query < block.num_queries; query += kWarps) {
    const float* from = task.q + (shared.row[query] * task.num_heads + shared.head[query]) * width;
    float inverse = 1, unit = 1;
    if constexpr (Elements::kScalesQueries) {
      std::uint32_t largest = 0;  // bits of a float, in which NaN is above all numbers
      for (int e = lane_idx(); e < width; e += 32)
        largest = magnitude_of(from[e]) > largest ? magnitude_of(from[e]) : largest;
      largest = warp_max(largest);
      inverse = Elements::query_inverse(float_of(largest));
      unit = Elements::query_unit(float_of(largest));
    }
    if (lane_idx() == 0) shared.score_scales[query] = unit * softmax_scale;
    for (int i = lane_idx(); i < S::kQuerySteps * 8; i += 32) {
      const int t = i % 4, half = i / 4 % 2, step = i / 8;
      const int first = (4 * (step / S::kKeySteps) + t) * S::kKeyElements;
      float values[Elements::kWordNumbers];
#pragma unroll
      for (int j = 0; j < Elements::kWordNumbers; ++j) {
        const int e = first + Elements::key_number(step % S::kKeySteps, half, j);
        values[j] = e < width ? from[e] : 0.0F;
      }
      std::uint32_t terms[Elements::kTerms];
      Elements::quantize_query(values, inverse, terms);
#pragma unroll
      for (int term = 0; term < Elements::kTerms; ++term)
        shared.queries[term][query / 16][step][query % 8 * 4 + t][2 * half + query % 16 / 8] = terms[term];
    }
  }
}

template <KvFormat format, int kDim, int kTiles, bool kWindowed>
QRL_DEVICE void attend(const AttentionTask& task, std::int64_t tile_idx, Shared<format, kDim, kTiles>& shared) {
  using S = Share<format, kDim>;
  using Elements = KvElements<format>;
  const KvPages& pages = task.pages;
  const Block block(task, tile_idx);
  const AttentionTile& tile = block.tile;
  const std::int32_t* page_ids = task.where.page_ids + tile.first_page;
  const auto width = static_cast<int>(pages.head_dim);
  const bool is_split = task.work.partials_N[task.work.rows[tile.first_row]] >= 0;
  const float key_scale = format == KvFormat::fp8_e4m3 ? pages.key_head_scales_K[block.kv_head] : 1.0F;

  name_queries(task, block, shared);
  sync_block();
  bring_queries(task, block, key_scale, shared);
  std::int32_t num_positions = 0, seen_from = 0x7fffffff;
  for (int i = 0; i < tile.num_rows; ++i) {
    const std::int32_t position = task.where.positions[task.work.rows[tile.first_row + i]];
    num_positions = position >= num_positions ? position + 1 : num_positions;
    if constexpr (kWindowed) {
      const std::int32_t from = first_seen<kWindowed>(task, position);
      seen_from = from < seen_from ? from : seen_from;
    }
  }
  int first_chunk = tile.first_chunk;
  // Chunks before all rows' windows are skipped.
  if (kWindowed && seen_from / kAttentionChunk > first_chunk) first_chunk = seen_from / kAttentionChunk;
  sync_block();
  TileOfQueries<format, kDim, kTiles, kWindowed> lanes{pages,          shared,     lane_idx() / 4,
                                                       lane_idx() % 4, warp_idx(), (block.num_queries + 7) / 8};

  for (int chunk = first_chunk; chunk < tile.end_chunk; ++chunk) {
    const int first = chunk * kAttentionChunk;
    const int count = num_positions - first < kAttentionChunk ? num_positions - first : kAttentionChunk;
    // Entries past the last position get that position's slot, and those before all windows that of the first position
    // seen, whose page exists. Their weights are 0.
#pragma unroll 1  // a larger factor spills registers
    for (int i = thread_idx(); i < kAttentionChunk; i += kThreads) {
      int at = first + (i < count ? i : count - 1);
      if (kWindowed && at < seen_from) at = seen_from;
      const std::int64_t slot = pages.slot_of(page_ids, at, block.kv_head);
      shared.bytes_at[i] = pages.at.byte_at(slot);
      if (!Elements::kScaled) continue;
      shared.key_scales[i] = pages.key_slot_scales[slot];
      shared.value_scales[i] = pages.value_slot_scales[slot];
    }
    sync_block();
    lanes.prefetch_first(count);

    float score[kSteps][kTiles][2][2], largest[kTiles], sum[kTiles];
    lanes.make_scores(first, count, task.window, score);
    lanes.largest_of(score, largest);
    lanes.put(largest, &Stats::largest);
    sync_block();
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      for (int warp = 0; warp < kWarps; ++warp)
        largest[n] = fmaxf(largest[n], shared.stats[warp][8 * n + lanes.g].largest);
    }
    std::uint32_t weight[kSteps][kTiles][2];
    lanes.make_weights(score, largest, weight, sum);
    lanes.put(sum, &Stats::sum);
    typename Elements::Sum context[S::kValueVectors][S::kValueTiles][kTiles][4] = {};
    lanes.add_values(weight, count, context);
    lanes.sum_contexts(context);

    const bool is_last = chunk + 1 == tile.end_chunk;
    for (int query = lanes.warp; query < block.num_queries; query += kWarps) {
      const std::int64_t row = shared.row[query], head = shared.head[query];
      const std::int32_t last = shared.last_position[query];
      const bool sees = first <= last && first + kAttentionChunk > first_seen<kWindowed>(task, last);
      Stats of_chunk;
      for (int warp = 0; warp < kWarps; ++warp) {
        const Stats& of_warp = shared.stats[warp][query];
        of_chunk = {fmaxf(of_chunk.largest, of_warp.largest), of_chunk.sum + of_warp.sum};
      }
      if (is_split) {
        if (!sees) continue;
        const std::int64_t partial = (task.work.partials_N[row] + chunk) * task.num_heads + head;
        for (int e = lane_idx(); e < width; e += 32)
          task.partial_contexts[partial * width + e] = shared.context[0][query][e] + shared.context[1][query][e];
        if (lane_idx() != 0) continue;
        task.partial_stats[2 * partial] = of_chunk.largest;
        task.partial_stats[2 * partial + 1] = of_chunk.sum;
        continue;
      }
      const bool is_first = kWindowed && chunk == first_chunk;
      join_chunk<kWindowed>(task, shared, {query, row, head, chunk, sees, is_first, is_last}, of_chunk, block.kv_head);
    }
    sync_block();
  }
}

template <KvFormat format, int kDim, int kTiles, bool kWindowed>
QRL_KERNEL_OF(kThreads, attention_blocks_at_once(format, kDim, kTiles == kSmallQueries / 8, kWindowed))
void attention_kernel(AttentionTask task) {
  wait_for_kernel_before();
  auto& shared = *reinterpret_cast<Shared<format, kDim, kTiles>*>(shared_memory());
  const AttentionCounts& counts = *task.work.counts;
  constexpr bool kIsSmall = kTiles == kSmallQueries / 8;
  const std::int64_t first = kIsSmall ? 0 : counts.num_small;
  const std::int64_t end = first + (kIsSmall ? counts.num_small : counts.num_large);
  // No barrier is needed here: each tile ends with one.
  for (std::int64_t tile_idx = first + block_x(); tile_idx < end; tile_idx += num_blocks_x())
    attend<format, kDim, kTiles, kWindowed>(task, tile_idx, shared);
}

template <KvFormat format, int kDim, int kTiles>
void run_tiles(const AttentionTask& task, std::int64_t num_blocks, const Stream& stream) {
  const AttentionShape shape{task.num_heads, task.pages.at.num_kv_heads, task.pages.head_dim};
  launch(
      task.window == 0 ? attention_kernel<format, kDim, kTiles, false> : attention_kernel<format, kDim, kTiles, true>,
      {num_blocks, shape.num_kv_heads * shape.heads_tiles()}, kThreads, sizeof(Shared<format, kDim, kTiles>), stream,
      task);
}

template <KvFormat format, int kDim>
void run_both(const AttentionTask& task, const Stream& stream) {
  run_tiles<format, kDim, kSmallQueries / 8>(task, task.work.small_blocks, stream);
  run_tiles<format, kDim, max_tile_queries(kDim) / 8>(task, task.work.large_blocks, stream);
}

template <KvFormat format>
void run_format(const AttentionTask& task, const Stream& stream) {
  if (task.pages.head_dim <= 64) run_both<format, 64>(task, stream);
  else if (task.pages.head_dim <= 128) run_both<format, 128>(task, stream);
  else run_both<format, 256>(task, stream);
}

template <bool kWindowed>
void join_width(const AttentionTask& task, const Stream& stream) {
  if (task.pages.head_dim <= 128) join_rows<4, kWindowed>(task, stream);
  else join_rows<8, kWindowed>(task, stream);
}

}  // namespace

void attention(const AttentionTask& wanted, const Stream& stream) {
  AttentionTask task = wanted;
  if (task.score_scale == 0) task.score_scale = 1.0F / std::sqrt(static_cast<float>(task.pages.head_dim));
  switch (task.pages.format) {
    case KvFormat::bf16:
      run_format<KvFormat::bf16>(task, stream);
      break;
    case KvFormat::int8:
      run_format<KvFormat::int8>(task, stream);
      break;
    default:
      run_format<KvFormat::fp8_e4m3>(task, stream);
  }
  if (task.window == 0) join_width<false>(task, stream);
  else join_width<true>(task, stream);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
