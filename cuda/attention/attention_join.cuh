// Joins chunks' results into a row's context in fp32, as flash-decoding does. The chunks of each segment are joined in
// order. Then the segments are joined in order. A tile's own block joins unsplit rows; a second kernel joins split
// rows. Both give the same bits.
#pragma once

#include "cuda/attention/attention_task.h"
#include "cuda/attention/attention_tile.cuh"
#include "cuda/runtime/target.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

QRL_DEVICE void put_context(const AttentionTask& task, std::int64_t row, std::int64_t head, int e, float value) {
  const std::int64_t at = head * task.pages.head_dim + e;
  if (task.context_bf16 == nullptr) task.context[row * task.num_heads * task.pages.head_dim + at] = value;
  else task.context_bf16[row * task.bf16_stride + at] = bf16_of(value);
}
/// Zeroes the padding of a bf16 row if `head` is the row's last head. `count` threads share the work; `thread` is this
/// thread's index.
QRL_DEVICE void fill_up(const AttentionTask& task, std::int64_t row, std::int64_t head, int thread, int count) {
  if (task.context_bf16 == nullptr || head != task.num_heads - 1) return;
  const std::int64_t width = task.num_heads * task.pages.head_dim;
  for (std::int64_t e = width + thread; e < task.bf16_stride; e += count)
    task.context_bf16[row * task.bf16_stride + e] = 0;
}

struct ChunkOf {
  int query;
  std::int64_t row, head;
  int chunk;
  bool sees;               // whether the query attends to the chunk
  bool is_first, is_last;  // of the tile's; is_first: with a window only
};

/// Joins a chunk's result with the query's earlier results in the chunk's segment. At the segment's end, joins the
/// segment's result with that of earlier segments, which task.context holds. Runs in one warp.
template <bool kWindowed, KvFormat format, int kDim, int kTiles>
QRL_DEVICE void join_chunk(const AttentionTask& task, Shared<format, kDim, kTiles>& shared, const ChunkOf& of,
                           const Stats& of_chunk, int kv_head) {
  const int query = of.query, segment = of.chunk / kSegmentChunks;
  const auto width = static_cast<int>(task.pages.head_dim);
  const bool begins = of.chunk % kSegmentChunks == 0 || of.is_first;
  const bool ends = of.is_last || (of.chunk + 1) % kSegmentChunks == 0;
  constexpr int kSegmentPositions = kSegmentChunks * kAttentionChunk;
  const std::int32_t last = shared.last_position[query];
  // Joining begins with the first segment that the query's window reaches.
  const int first_segment = first_seen<kWindowed>(task, last) / kSegmentPositions;
  const bool sees_segment = first_segment <= segment && segment * kSegmentPositions <= last;
  Stats stats = begins ? Stats{} : shared.joined_stats[of.chunk % 2][query];
  Factors by{1, 0};
  if (of.sees) by = join(stats, of_chunk);
  Stats total = stats;
  Factors by_segment{0, 1};
  if (ends && segment > first_segment) {
    total = shared.total_stats[segment % 2][query];
    by_segment = {1, 0};
    if (sees_segment) by_segment = join(total, stats);
  }
  const float value_scale = format == KvFormat::fp8_e4m3 ? task.pages.value_head_scales_K[kv_head] : 1.0F;
  float* before = task.context + (of.row * task.num_heads + of.head) * width;
#pragma unroll 1
  for (int e = lane_idx(); e < width; e += 32) {
    float value = begins ? 0.0F : shared.joined[query][e];
    if (of.sees) value = fmaf(shared.context[0][query][e] + shared.context[1][query][e], by.added, value * by.before);
    if (!ends) {
      shared.joined[query][e] = value;
      continue;
    }
    if (segment > first_segment)
      value = sees_segment ? fmaf(value, by_segment.added, before[e] * by_segment.before) : before[e];
    if (of.is_last) put_context(task, of.row, of.head, e, value / total.sum * value_scale);
    else before[e] = value;
  }
  if (of.is_last) fill_up(task, of.row, of.head, lane_idx(), 32);
  if (lane_idx() != 0) return;
  shared.joined_stats[(of.chunk + 1) % 2][query] = stats;
  if (ends) shared.total_stats[(segment + 1) % 2][query] = total;
}

constexpr int kJoinWarps = 8, kJoinThreads = 32 * kJoinWarps;

QRL_DEVICE float value_scale_of(const AttentionTask& task, std::int64_t head) {
  if (task.pages.format != KvFormat::fp8_e4m3) return 1.0F;
  const auto heads_of_kv = static_cast<unsigned>(task.num_heads) / static_cast<unsigned>(task.pages.at.num_kv_heads);
  return task.pages.value_head_scales_K[static_cast<unsigned>(head) / heads_of_kv];
}

/// Joins a segment's chunks from `from` on, before `count` (all, if it has fewer), in order, in one warp. partial:
/// index of the segment's first result.
template <int kEach>
QRL_DEVICE Stats join_segment(const AttentionTask& task, std::int64_t partial, int from, int count,
                              float (&joined)[kEach]) {
  const int width = static_cast<int>(task.pages.head_dim), stride = static_cast<int>(task.num_heads);
  const float* stats_at = task.partial_stats + 2 * partial;
  const float* contexts_at = task.partial_contexts + partial * width + lane_idx();
  Stats of_chunks[kSegmentChunks];
  float contexts[kSegmentChunks][kEach];
#pragma unroll
  for (int i = 0; i < kSegmentChunks; ++i) {
    if (from <= i && i < count) of_chunks[i] = {stats_at[2 * i * stride], stats_at[2 * i * stride + 1]};
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      contexts[i][j] =
          from <= i && i < count && lane_idx() + 32 * j < width ? contexts_at[i * stride * width + 32 * j] : 0.0F;
  }
  Stats stats;
#pragma unroll
  for (int j = 0; j < kEach; ++j) joined[j] = 0;
#pragma unroll
  for (int i = 0; i < kSegmentChunks; ++i) {
    if (i < from) continue;
    if (i >= count) break;
    const Factors by = join(stats, of_chunks[i]);
#pragma unroll
    for (int j = 0; j < kEach; ++j) joined[j] = fmaf(contexts[i][j], by.added, joined[j] * by.before);
  }
  return stats;
}

/// Joins all segments in order. One warp processes one split row and query head. Requires 32 · kEach ≥ head_dim.
template <int kEach, bool kWindowed>
QRL_KERNEL_OF(kJoinThreads, kEach <= 4 ? 3 : 2)
void join_heads_kernel(AttentionTask task) {
  wait_for_kernel_before();
  const std::int64_t head = block_y() * kJoinWarps + warp_idx();
  if (block_x() >= task.work.counts->num_split || head >= task.num_heads) return;
  const std::int64_t row = task.work.split_rows[block_x()];
  const std::int64_t partial = task.work.partials_N[row] * task.num_heads + head;
  const int num_chunks = task.where.positions[row] / kAttentionChunk + 1;
  const float value_scale = value_scale_of(task, head);
  const int first_chunk = first_seen<kWindowed>(task, task.where.positions[row]) / kAttentionChunk;
  const int first_begin = first_chunk / kSegmentChunks * kSegmentChunks;
  Stats total;
  float context[kEach];
#pragma unroll 1  // split rows rarely have several segments
  for (int begin = first_begin; begin < num_chunks; begin += kSegmentChunks) {
    float of_segment[kEach];
    const Stats stats = join_segment(task, partial + begin * task.num_heads, kWindowed ? first_chunk - begin : 0,
                                     num_chunks - begin, of_segment);
    const Factors by = begin == first_begin ? Factors{} : join(total, stats);
    if (begin == first_begin) total = stats;
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      context[j] = begin == first_begin ? of_segment[j] : fmaf(of_segment[j], by.added, context[j] * by.before);
  }
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const int e = lane_idx() + 32 * j;
    if (e < task.pages.head_dim) put_context(task, row, head, e, context[j] / total.sum * value_scale);
  }
  fill_up(task, row, head, lane_idx(), 32);
}

template <int kEach>
struct Segments {
  float contexts[kJoinWarps][32 * kEach];
  Stats stats[kJoinWarps];
};

template <int kEach, bool kWindowed>
QRL_KERNEL_OF(kJoinThreads, 2)
void join_segments_kernel(AttentionTask task) {
  wait_for_kernel_before();
  if (block_x() >= task.work.counts->num_split) return;
  auto& shared = *reinterpret_cast<Segments<kEach>*>(shared_memory());
  const std::int64_t row = task.work.split_rows[block_x()], head = block_y();
  const auto width = static_cast<int>(task.pages.head_dim);
  const std::int32_t num_chunks = task.where.positions[row] / kAttentionChunk + 1;
  const int num_segments = (num_chunks + kSegmentChunks - 1) / kSegmentChunks, e = thread_idx();
  const int first_chunk = first_seen<kWindowed>(task, task.where.positions[row]) / kAttentionChunk;
  const int first_segment = first_chunk / kSegmentChunks;
  const float value_scale = value_scale_of(task, head);
  Stats total;
  float value = 0;
  for (int first = first_segment; first < num_segments; first += kJoinWarps) {
    const int segment = first + warp_idx(), begin = segment * kSegmentChunks;
    if (segment < num_segments) {
      float joined[kEach];
      const Stats stats = join_segment(task, (task.work.partials_N[row] + begin) * task.num_heads + head,
                                       kWindowed ? first_chunk - begin : 0, num_chunks - begin, joined);
#pragma unroll
      for (int j = 0; j < kEach; ++j) shared.contexts[warp_idx()][lane_idx() + 32 * j] = joined[j];
      if (lane_idx() == 0) shared.stats[warp_idx()] = stats;
    }
    sync_block();
    for (int i = 0; i < kJoinWarps && first + i < num_segments && e < width; ++i) {
      const Stats stats = shared.stats[i];
      const float of_segment = shared.contexts[i][e];
      if (first + i == first_segment) {
        total = stats;
        value = of_segment;
      } else {
        const Factors by = join(total, stats);
        value = fmaf(of_segment, by.added, value * by.before);
      }
    }
    sync_block();  // before the next segments overwrite shared memory
  }
  if (e < width) put_context(task, row, head, e, value / total.sum * value_scale);
  fill_up(task, row, head, e, kJoinThreads);
}

template <int kEach, bool kWindowed>
void join_rows(const AttentionTask& task, const Stream& stream) {
  const std::int64_t rows = task.work.split_blocks;
  if (task.work.joins_segments)
    launch(join_segments_kernel<kEach, kWindowed>, {rows, task.num_heads}, kJoinThreads, sizeof(Segments<kEach>),
           stream, task);
  else
    launch(join_heads_kernel<kEach, kWindowed>, {rows, ceil_div(task.num_heads, kJoinWarps)}, kJoinThreads, 0, stream,
           task);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
