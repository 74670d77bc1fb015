// Attention over keys and values in pages, a block a tile of the plan (attention_plan.h) and a kv head.
//
// What it should take. 64 rows at 2,048 positions, 8 kv heads of 128, e4m3: 268 MB of keys and values a layer, 80 µs at
// an H100's 3.35 TB/s. fp32 fma for 32 query heads: 2.1 G multiply-adds of queries and weights, 64 µs of all fp32 lanes
// without a single other instruction, and each code must be decoded besides: so matrix units, of whose work here (13 G
// operations with the unused rows of a tile) there is 20 µs at a third of their rate. Keys and values go from device
// memory to registers, never through shared memory: a lane's 16-byte loads are laid so that what a lane holds is,
// decoded, just what the matrix unit wants of it; the sums' order over elements and the output's order of elements
// follow from that. Decoding e4m3 takes 3.3 instructions a code (two at a time, the NaN check included), 36 M warp
// instructions with softmax and addresses, 40 µs of all schedulers. Shared memory holds the queries, in fragments of
// the unit: 8 KB for each 64 KB of codes that a block reads. bf16 pages are twice the bytes and almost no decoding.
#include "kernels.h"
#include "target.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

using quant::KvFormat;

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
/// Positions that a warp takes at once, one depth of the matrix unit; the warps take turns, so a short chunk is spread.
constexpr int kStep = 16;
constexpr int kSteps = kAttentionChunk / (kStep * kWarps);
constexpr float kLog2E = 1.44269504F;

template <int kCount>
struct alignas(4 * kCount) Words {
  std::uint32_t word[kCount];
};

/// How the lanes share a slot's codes of a head padded to kDim. g = lane / 4, t = lane % 4.
/// Keys: the lanes of a g read one position, 16-byte pieces t, 4 + t …; a piece is some steps of the matrix unit, each
/// of four elements a lane. Values: the lanes of a t read four positions, pieces g, 8 + g …; a piece's elements, two at
/// a time, are rows g and g + 8 of the unit's tile.
template <KvFormat format, int kDim>
struct Share {
  static constexpr int kCodeBytes = format == KvFormat::bf16 ? 2 : 1;
  static constexpr int kKeyElements = 16 / kCodeBytes;
  static constexpr int kKeyPieces = kDim / (4 * kKeyElements);
  static constexpr int kKeySteps = kKeyElements / 4;  // of a piece
  static constexpr int kValueBytes = kDim * kCodeBytes / 8 < 16 ? kDim * kCodeBytes / 8 : 16;
  static constexpr int kValueElements = kValueBytes / kCodeBytes;
  static constexpr int kValuePieces = kDim / (8 * kValueElements);
  static constexpr int kValueTiles = kValueElements / 2;  // of a piece
};

/// Two codes as two bf16, exactly: element `i` of the words at `a` in the low half, element `j` of those at `b` above.
/// e4m3's NaN is not (see nan_codes).
template <KvFormat format>
QRL_DEVICE std::uint32_t bf16_pair(const std::uint32_t* a, int i, const std::uint32_t* b, int j) {
  if constexpr (format == KvFormat::bf16) {
    return pick_bytes(a[i / 2], b[j / 2], (i % 2 == 0 ? 0x10U : 0x32U) | (j % 2 == 0 ? 0x5400U : 0x7600U));
  } else {
    const std::uint32_t low = static_cast<std::uint32_t>(i % 4), high = static_cast<std::uint32_t>(4 + j % 4);
    // Each byte twice: alone in a half's upper byte, and below.
    const std::uint32_t codes = pick_bytes(a[i / 4], b[j / 4], low | low << 4 | high << 8 | high << 12);
    if constexpr (format == KvFormat::fp8_e4m3) {
      // Sign, exponent and mantissa to their places in bf16, whose exponents are 120 higher; subnormals, too.
      const std::uint32_t shifted = ((codes >> 4) & 0x07f007f0U) | (codes & 0x80008000U);
      return fma_bf16x2(shifted, 0x7b807b80U, 0x80008000U);  // · 2¹²⁰ − 0
    } else {
      // 128 + the code's low seven bits, and 128, or 256 where it is negative: the difference is the code.
      const std::uint32_t raised = (codes & 0x007f007fU) | 0x43004300U, base = (codes & 0x00800080U) | 0x43004300U;
      return fma_bf16x2(base, 0xbf80bf80U, raised);
    }
  }
}

/// Not 0 when one of four e4m3 codes is NaN.
QRL_DEVICE std::uint32_t nan_codes(std::uint32_t word) { return ((word & 0x7f7f7f7fU) + 0x01010101U) & 0x80808080U; }

/// A chunk's or a row's softmax so far.
struct Stats {
  float largest = -INFINITY, sum = 0;
};
/// What the context of either must be multiplied with when they are joined.
struct Factors {
  float before, added;
};
QRL_DEVICE Factors join(Stats& stats, Stats added) {
  const float most = fmaxf(stats.largest, added.largest);
  const Factors by{exp2f((stats.largest - most) * kLog2E), exp2f((added.largest - most) * kLog2E)};
  stats = {most, fmaf(added.sum, by.added, stats.sum * by.before)};
  return by;
}

/// kTiles: tiles of eight query vectors. Scores are made sixteen at a time.
template <int kDim, int kTiles>
struct Shared {
  static constexpr int kQueries = 8 * kTiles, kWideTiles = (kTiles + 1) / 2;
  std::uint32_t queries[kWideTiles][kDim / 16][32][4];               // fragments of the matrix unit
  std::int64_t codes_at[kAttentionChunk];                            // of a chunk's positions
  float key_scales[kAttentionChunk], value_scales[kAttentionChunk];  // int8's
  float context[kQueries][kDim + 2], joined[kQueries][kDim + 2];     // of the chunk, of those until now
  Stats stats[kWarps][kQueries], joined_stats[2][kQueries];          // the latter in turn
  std::int32_t last_position[kQueries];                              // that it sees; −1: no query
  float score_scale;                                                 // of all scores
};

/// A lane's part of a block of kTiles · 8 query vectors.
template <KvFormat format, int kDim, int kTiles>
struct TileOfQueries {
  using S = Share<format, kDim>;
  using Memory = Shared<kDim, kTiles>;
  static constexpr int kWideTiles = Memory::kWideTiles;
  // Pieces of loads under way, in registers: as many as there are.
  static constexpr int kKeysAhead = (kTiles == 1 ? 4 : 2) / (kDim <= 128 ? 1 : 2);
  static constexpr int kValuesAhead = kTiles == 1 && kDim <= 128 ? 2 : 1;

  const KvPages& pages;
  Memory& shared;
  int g, t, warp;
  int num_tiles;  // of queries, that are there
  std::uint32_t seen_nan;

  QRL_DEVICE static int step_at(int s, int warp) { return (s * kWarps + warp) * kStep; }

  QRL_DEVICE void load_keys(int unit, int count, Words<4> (&to)[2]) const {
    const int from = step_at(unit / S::kKeyPieces, warp), piece = 4 * (unit % S::kKeyPieces) + t;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      to[h] = {};
      if (from < count && piece * 16 < pages.at.slot_bytes())
        to[h] = *reinterpret_cast<const Words<4>*>(pages.keys + shared.codes_at[from + 8 * h + g] + piece * 16);
    }
  }

  /// score[s][n][h][j]: query 8n + g, position step_at(s) + 8h + 2t + j of the chunk; −∞ where it is not seen.
  QRL_DEVICE void make_scores(int first_position, int count, float (&score)[kSteps][kTiles][2][2]) {
    std::int32_t last_position[kTiles];
#pragma unroll
    for (int n = 0; n < kTiles; ++n) last_position[n] = shared.last_position[8 * n + g];
    Words<4> keys[kKeysAhead][2];
#pragma unroll
    for (int unit = 0; unit < kKeysAhead; ++unit) load_keys(unit, count, keys[unit]);
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int from = step_at(s, warp);
      float sums[kWideTiles][2][4] = {};
#pragma unroll
      for (int p = 0; p < S::kKeyPieces; ++p) {
        const int unit = s * S::kKeyPieces + p;
        Words<4>(&now)[2] = keys[unit % kKeysAhead];
        if (from < count) multiply_keys(p, now, sums);
        if (unit + kKeysAhead < kSteps * S::kKeyPieces) load_keys(unit + kKeysAhead, count, now);
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int idx = from + 8 * h + 2 * t + j;
          float scale = shared.score_scale;
          if (format == KvFormat::int8 && idx < count) scale *= shared.key_scales[idx];
#pragma unroll
          for (int n = 0; n < kTiles; ++n) {
            const bool seen = idx < count && first_position + idx <= last_position[n];
            score[s][n][h][j] = seen ? sums[n / 2][h][n % 2 * 2 + j] * scale : -INFINITY;
          }
        }
      }
    }
  }

  QRL_DEVICE void multiply_keys(int piece, const Words<4> (&keys)[2], float (&sums)[kWideTiles][2][4]) {
#pragma unroll
    for (int i = 0; i < S::kKeySteps; ++i) {
      std::uint32_t key[2][2];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const std::uint32_t* words = keys[h].word;
        key[h][0] = bf16_pair<format>(words, 4 * i, words, 4 * i + 1);
        key[h][1] = bf16_pair<format>(words, 4 * i + 2, words, 4 * i + 3);
        if (format == KvFormat::fp8_e4m3) seen_nan |= nan_codes(words[i]);
      }
#pragma unroll
      for (int m = 0; m < kWideTiles; ++m) {
        if (2 * m >= num_tiles) break;
        const std::uint32_t* fragment = shared.queries[m][piece * S::kKeySteps + i][4 * g + t];
        const std::uint32_t query[4] = {fragment[0], fragment[1], fragment[2], fragment[3]};
#pragma unroll
        for (int h = 0; h < 2; ++h) mma(sums[m][h], query, key[h][0], key[h][1]);
      }
    }
  }

  /// Largest score of queries 8n + g in the warp.
  QRL_DEVICE void largest_of(const float (&score)[kSteps][kTiles][2][2], float (&largest)[kTiles]) const {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      float most = -INFINITY;
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        most = fmaxf(most,
                     fmaxf(fmaxf(score[s][n][0][0], score[s][n][0][1]), fmaxf(score[s][n][1][0], score[s][n][1][1])));
      }
      most = fmaxf(most, shuffle_xor(most, 1));
      largest[n] = fmaxf(most, shuffle_xor(most, 2));
    }
  }

  /// To shared memory, of queries 8n + g in the warp.
  QRL_DEVICE void put(const float (&values)[kTiles], float Stats::*which) const {
    if (t != 0) return;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) shared.stats[warp][8 * n + g].*which = values[n];
  }

  /// Scores to weights as the matrix unit takes them, and their sums in the warp.
  QRL_DEVICE void make_weights(const float (&score)[kSteps][kTiles][2][2], const float (&largest)[kTiles],
                               std::uint32_t (&weight)[kSteps][kTiles][2], float (&sum)[kTiles]) const {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) sum[n] = 0;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float scale[2] = {1, 1};
        if (format == KvFormat::int8) {
#pragma unroll
          for (int j = 0; j < 2; ++j) scale[j] = shared.value_scales[step_at(s, warp) + 8 * h + 2 * t + j];
        }
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
          float one[2];
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            const float value = score[s][n][h][j];
            one[j] = value == -INFINITY ? 0.0F : exp2f((value - largest[n]) * kLog2E);
            if (format == KvFormat::int8) {
              sum[n] += one[j];
              one[j] = value == -INFINITY ? 0.0F : one[j] * scale[j];
            }
          }
          const std::uint32_t pair = bf16x2_of(one[0], one[1]);
          weight[s][n][h] = pair;
          if (format != KvFormat::int8) {
            sum[n] += float_of(pair << 16);
            sum[n] += float_of(pair & 0xffff0000U);
          }
        }
      }
    }
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      sum[n] += shuffle_xor(sum[n], 1);
      sum[n] += shuffle_xor(sum[n], 2);
    }
  }

  using ValueWords = Words<S::kValueBytes / 4>;
  /// Positions 2t, 2t + 1, 2t + 8, 2t + 9 of a step.
  QRL_DEVICE void load_values(int unit, int count, ValueWords (&to)[4]) const {
    const int from = step_at(unit / S::kValuePieces, warp), at = (8 * (unit % S::kValuePieces) + g) * S::kValueBytes;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      to[r] = {};
      if (from < count && at < pages.at.slot_bytes())
        to[r] =
            *reinterpret_cast<const ValueWords*>(pages.values + shared.codes_at[from + r / 2 * 8 + 2 * t + r % 2] + at);
    }
  }

  /// context[p][j][n] in the unit's order: elements 2j and 2j + 1 of the lane's piece p, queries 8n + 2t, 8n + 2t + 1.
  QRL_DEVICE void add_values(const std::uint32_t (&weight)[kSteps][kTiles][2], int count,
                             float (&context)[S::kValuePieces][S::kValueTiles][kTiles][4]) {
    ValueWords values[kValuesAhead][4];
#pragma unroll
    for (int unit = 0; unit < kValuesAhead; ++unit) load_values(unit, count, values[unit]);
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
#pragma unroll
      for (int p = 0; p < S::kValuePieces; ++p) {
        const int unit = s * S::kValuePieces + p;
        ValueWords(&now)[4] = values[unit % kValuesAhead];
        if (step_at(s, warp) < count) {
          if (format == KvFormat::fp8_e4m3) {
#pragma unroll
            for (int r = 0; r < 4; ++r) {
#pragma unroll
              for (const std::uint32_t word : now[r].word) seen_nan |= nan_codes(word);
            }
          }
#pragma unroll
          for (int j = 0; j < S::kValueTiles; ++j) {
            std::uint32_t value[4];
#pragma unroll
            for (int r = 0; r < 4; ++r) {
              const int first = r / 2 * 2, element = 2 * j + r % 2;
              value[r] = bf16_pair<format>(now[first].word, element, now[first + 1].word, element);
            }
#pragma unroll
            for (int n = 0; n < kTiles; ++n) {
              if (n < num_tiles) mma(context[p][j][n], value, weight[s][n][0], weight[s][n][1]);
            }
          }
        }
        if (unit + kValuesAhead < kSteps * S::kValuePieces) load_values(unit + kValuesAhead, count, now);
      }
    }
  }

  /// The warps' contexts of a chunk to shared memory, summed in the warps' order.
  QRL_DEVICE void sum_contexts(const float (&context)[S::kValuePieces][S::kValueTiles][kTiles][4]) const {
    for (int turn = 0; turn < kWarps; ++turn) {
      if (turn == warp) {
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
          if (n >= num_tiles) break;
#pragma unroll
          for (int p = 0; p < S::kValuePieces; ++p) {
#pragma unroll
            for (int j = 0; j < S::kValueTiles; ++j) {
#pragma unroll
              for (int c = 0; c < 4; ++c) {
                float& to = shared.context[8 * n + 2 * t + c % 2][(8 * p + g) * S::kValueElements + 2 * j + c / 2];
                to = turn == 0 ? context[p][j][n][c] : to + context[p][j][n][c];
              }
            }
          }
        }
      }
      sync_block();
    }
  }
};

/// What a block is to do, the same for all threads.
struct Block {
  AttentionTile tile;
  std::int64_t kv_head, first_head;
  int heads, num_queries;
  QRL_DEVICE Block(const AttentionTask& task)
      : tile(task.work.tiles[block_x()]), kv_head(block_y() % task.pages.at.num_kv_heads) {
    const AttentionShape shape{task.num_heads, task.pages.at.num_kv_heads, task.pages.head_dim};
    const std::int64_t skipped = block_y() / shape.num_kv_heads * max_tile_queries(shape.head_dim);
    const std::int64_t left = shape.heads_of_kv() - skipped, most = max_tile_queries(shape.head_dim);
    first_head = kv_head * shape.heads_of_kv() + skipped;
    heads = static_cast<int>(left < most ? left : most);
    num_queries = tile.num_rows * heads;
  }
  QRL_DEVICE std::int64_t row(const AttentionTask& task, int query) const {
    return task.work.rows[tile.first_row + query / heads];
  }
  QRL_DEVICE std::int64_t head(int query) const { return first_head + query % heads; }
};

template <class S, class Memory>
QRL_DEVICE void bring_queries(const AttentionTask& task, const Block& block, float key_scale, Memory& shared) {
  const std::int64_t width = task.pages.head_dim;
  if (thread_idx() == 0) shared.score_scale = 1.0F / sqrtf(static_cast<float>(width)) * key_scale;
  for (int query = thread_idx(); query < Memory::kQueries; query += kThreads)
    shared.last_position[query] = query < block.num_queries ? task.where.positions[block.row(task, query)] : -1;
  auto* words = &shared.queries[0][0][0][0];
  constexpr int kNumSteps = static_cast<int>(sizeof(shared.queries[0]) / sizeof(shared.queries[0][0]));
  for (int i = thread_idx(); i < Memory::kWideTiles * kNumSteps * 32 * 4; i += kThreads) {
    const int word = i % 4, lane = i / 4 % 32, step = i / 128 % kNumSteps, m = i / 128 / kNumSteps;
    const int query = 16 * m + word % 2 * 8 + lane / 4;
    const std::int64_t e =
        (4 * (step / S::kKeySteps) + lane % 4) * S::kKeyElements + step % S::kKeySteps * 4 + word / 2 * 2;
    float pair[2] = {0, 0};
    if (query < block.num_queries) {
      const float* from = task.q + (block.row(task, query) * task.num_heads + block.head(query)) * width;
      for (int j = 0; j < 2; ++j) {
        if (e + j < width) pair[j] = from[e + j];
      }
    }
    words[i] = bf16x2_of(pair[0], pair[1]);
  }
}

/// Blocks that a multiprocessor's registers are shared out for; more would spill.
template <KvFormat format, int kDim, int kTiles>
inline constexpr int kBlocksAtOnce = kTiles > 1 || kDim > 128       ? 2
                                     : format == KvFormat::fp8_e4m3 ? 4
                                                                    : 3;

template <KvFormat format, int kDim, int kTiles>
QRL_KERNEL_OF(kThreads, (kBlocksAtOnce<format, kDim, kTiles>))
void attention_kernel(AttentionTask task) {
  using S = Share<format, kDim>;
  using Memory = Shared<kDim, kTiles>;
  auto& shared = *reinterpret_cast<Memory*>(shared_memory());
  const KvPages& pages = task.pages;
  const Block block(task);
  const AttentionTile& tile = block.tile;
  const std::int32_t* page_ids = task.where.page_ids + tile.first_page;
  const std::int64_t width = pages.head_dim;
  const bool is_split = task.work.partials_N[task.work.rows[tile.first_row]] >= 0;
  const float key_scale = format == KvFormat::fp8_e4m3 ? pages.key_head_scales_K[block.kv_head] : 1.0F;
  const float value_scale = format == KvFormat::fp8_e4m3 ? pages.value_head_scales_K[block.kv_head] : 1.0F;

  bring_queries<S>(task, block, key_scale, shared);
  std::int32_t num_positions = 0;
  for (int i = 0; i < tile.num_rows; ++i) {
    const std::int32_t position = task.where.positions[task.work.rows[tile.first_row + i]];
    num_positions = position >= num_positions ? position + 1 : num_positions;
  }
  sync_block();
  TileOfQueries<format, kDim, kTiles> lanes{
      pages, shared, lane_idx() / 4, lane_idx() % 4, warp_idx(), (block.num_queries + 7) / 8, 0};

  for (int chunk = tile.first_chunk; chunk < tile.end_chunk; ++chunk) {
    const int first = chunk * kAttentionChunk;
    const int count = num_positions - first < kAttentionChunk ? num_positions - first : kAttentionChunk;
    // Behind the last position of a step that one again: its weight is 0.
    for (int i = thread_idx(); i < kAttentionChunk; i += kThreads) {
      const std::int64_t slot = pages.slot_of(page_ids, first + (i < count ? i : count - 1), block.kv_head);
      shared.codes_at[i] = pages.at.code_at(slot);
      if (format != KvFormat::int8) continue;
      shared.key_scales[i] = pages.key_slot_scales[slot];
      shared.value_scales[i] = pages.value_slot_scales[slot];
    }
    sync_block();

    float score[kSteps][kTiles][2][2], largest[kTiles], sum[kTiles];
    lanes.seen_nan = 0;
    lanes.make_scores(first, count, score);
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
    float context[S::kValuePieces][S::kValueTiles][kTiles][4] = {};
    lanes.add_values(weight, count, context);
    if (format == KvFormat::fp8_e4m3 && warp_max(lanes.seen_nan) != 0) {
      for (float& one : sum) one = float_of(kNanBits);
      lanes.put(sum, &Stats::sum);
    }
    lanes.sum_contexts(context);

    const bool is_last = chunk + 1 == tile.end_chunk;
    for (int query = lanes.warp; query < block.num_queries; query += kWarps) {
      const std::int64_t row = block.row(task, query), head = block.head(query);
      const bool sees = first <= shared.last_position[query];
      Stats of_chunk;
      for (int warp = 0; warp < kWarps; ++warp) {
        const Stats& of_warp = shared.stats[warp][query];
        of_chunk = {fmaxf(of_chunk.largest, of_warp.largest), of_chunk.sum + of_warp.sum};
      }
      if (is_split) {
        if (!sees) continue;
        const std::int64_t partial = (task.work.partials_N[row] + chunk) * task.num_heads + head;
        for (std::int64_t e = lane_idx(); e < width; e += 32)
          task.partial_contexts[partial * width + e] = shared.context[query][e];
        if (lane_idx() != 0) continue;
        task.partial_stats[2 * partial] = of_chunk.largest;
        task.partial_stats[2 * partial + 1] = of_chunk.sum;
        continue;
      }
      const bool is_first = chunk == tile.first_chunk;
      Stats stats = is_first ? Stats{} : shared.joined_stats[chunk % 2][query];
      Factors by{1, 0};
      if (sees) by = join(stats, of_chunk);
      for (std::int64_t e = lane_idx(); e < width; e += 32) {
        float value = is_first ? 0.0F : shared.joined[query][e];
        if (sees) value = fmaf(shared.context[query][e], by.added, value * by.before);
        if (is_last) task.context[(row * task.num_heads + head) * width + e] = value / stats.sum * value_scale;
        else shared.joined[query][e] = value;
      }
      if (lane_idx() == 0) shared.joined_stats[(chunk + 1) % 2][query] = stats;
    }
    sync_block();
  }
}

/// A block a split row and query head: its chunks' results, in order.
QRL_KERNEL void join_kernel(AttentionTask task) {
  const std::int64_t row = task.work.split_rows[block_x()], head = block_y(), width = task.pages.head_dim;
  const std::int64_t num_chunks = task.where.positions[row] / kAttentionChunk + 1;
  const std::int64_t kv_head = head / (task.num_heads / task.pages.at.num_kv_heads);
  const float value_scale = task.pages.format == KvFormat::fp8_e4m3 ? task.pages.value_head_scales_K[kv_head] : 1.0F;
  for (std::int64_t e = thread_idx(); e < width; e += kThreads) {
    Stats stats;
    float value = 0;
    for (std::int64_t chunk = 0; chunk < num_chunks; ++chunk) {
      const std::int64_t partial = (task.work.partials_N[row] + chunk) * task.num_heads + head;
      const Factors by = join(stats, {task.partial_stats[2 * partial], task.partial_stats[2 * partial + 1]});
      value = fmaf(task.partial_contexts[partial * width + e], by.added, value * by.before);
    }
    task.context[(row * task.num_heads + head) * width + e] = value / stats.sum * value_scale;
  }
}

template <KvFormat format, int kDim, int kTiles>
void run_tiles(const AttentionTask& task, std::int64_t first, std::int64_t count, const Stream& stream) {
  const AttentionShape shape{task.num_heads, task.pages.at.num_kv_heads, task.pages.head_dim};
  AttentionTask part = task;
  part.work.tiles += first;
  launch(attention_kernel<format, kDim, kTiles>, {count, shape.num_kv_heads * shape.heads_tiles()}, kThreads,
         sizeof(Shared<kDim, kTiles>), stream, part);
}

template <KvFormat format, int kDim>
void run_both(const AttentionTask& task, const Stream& stream) {
  const AttentionWork& work = task.work;
  run_tiles<format, kDim, kSmallQueries / 8>(task, 0, work.num_small, stream);
  run_tiles<format, kDim, max_tile_queries(kDim) / 8>(task, work.num_small, work.num_large, stream);
}

template <KvFormat format>
void run_format(const AttentionTask& task, const Stream& stream) {
  if (task.pages.head_dim <= 64) run_both<format, 64>(task, stream);
  else if (task.pages.head_dim <= 128) run_both<format, 128>(task, stream);
  else run_both<format, 256>(task, stream);
}

}  // namespace

void attention(const AttentionTask& task, const Stream& stream) {
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
  launch(join_kernel, {task.work.num_split, task.num_heads}, kThreads, 0, stream, task);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
