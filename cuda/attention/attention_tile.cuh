// Owns a block's attention arithmetic: scores, weights and contexts of a tile of query vectors over a chunk of
// positions.
#pragma once

#include "cuda/attention/attention_formats.cuh"
#include "cuda/attention/attention_plan.h"
#include "cuda/attention/attention_task.h"
#include "cuda/runtime/target.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
using quant::KvFormat;
/// Positions per step of a warp. Consecutive steps belong to different warps, so that short chunks use all warps.
constexpr int kStep = 16;
constexpr int kSteps = kAttentionChunk / (kStep * kWarps);
static_assert(kStep * kWarps == kRoundPositions);
constexpr float kLog2E = 1.44269504F;

/// Describes how a warp's lanes load slots of heads padded to kDim numbers. In this file, g = lane / 4 and t = lane %
/// 4.
/// - Keys: the four lanes of equal g read one position; lane t reads the position's 16-byte vectors t, 4 + t, …. A
///   vector feeds kKeySteps mma steps. A step takes two words per lane.
/// - Values: the eight lanes of equal t read four positions; lane g reads vectors g, 8 + g, … of each. Elements 2j and
///   2j + 1 of a vector become rows g and g + 8 of an mma tile.
template <quant::KvFormat format, int kDim>
struct Share {
  using Elements = KvElements<format>;
  static constexpr int kKeyElements = 16 / Elements::kBytes;
  static constexpr int kKeyVectors = kDim / (4 * kKeyElements);
  static constexpr int kKeySteps = kKeyElements / (2 * Elements::kWordNumbers);  // mma steps per vector
  static constexpr int kQuerySteps = kKeyVectors * kKeySteps;
  static constexpr int kValueBytes = kDim * Elements::kBytes / 8 < 16 ? kDim * Elements::kBytes / 8 : 16;
  static constexpr int kValueElements = kValueBytes / Elements::kBytes;
  static constexpr int kValueVectors = kDim / (8 * kValueElements);
  static constexpr int kValueTiles = kValueElements / 2;  // mma tiles per vector
};

struct Stats {
  float largest = -INFINITY, sum = 0;
};
/// Holds factors that join two contexts: `before` multiplies the context of earlier positions, `added` that of later
/// positions.
struct Factors {
  float before, added;
};
QRL_DEVICE Factors join(Stats& stats, Stats added) {
  const float most = fmaxf(stats.largest, added.largest);
  const Factors by{exp2f((stats.largest - most) * kLog2E), exp2f((added.largest - most) * kLog2E)};
  stats = {most, fmaf(added.sum, by.added, stats.sum * by.before)};
  return by;
}

/// Lays out a block's shared memory. kTiles: number of tiles of eight query vectors each. Scores are computed for two
/// tiles at a time.
template <quant::KvFormat format, int kDim, int kTiles>
struct Shared {
  static constexpr int kQueries = 8 * kTiles, kWideTiles = (kTiles + 1) / 2;
  // The queries as mma fragments, one set per term (KvElements::kTerms).
  std::uint32_t queries[KvElements<format>::kTerms][kWideTiles][Share<format, kDim>::kQuerySteps][32][4];
  std::int64_t bytes_at[kAttentionChunk];                            // byte offsets of a chunk's positions
  float key_scales[kAttentionChunk], value_scales[kAttentionChunk];  // int8 only
  float context[2][kQueries][kDim + 2];                              // the chunk's contexts, one sum per pair of warps
  float joined[kQueries][kDim + 2];                                  // joined contexts of the segment's earlier chunks
  Stats stats[kWarps][kQueries], joined_stats[2][kQueries];          // joined_stats[chunk % 2]: earlier chunks
  Stats total_stats[2][kQueries];                                    // total_stats[segment % 2]: earlier segments
  float weight_units[kWarps][kQueries];                              // quantization steps of weights; int8 only
  float score_scales[kQueries];
  std::int32_t row[kQueries], head[kQueries];
  std::int32_t last_position[kQueries];  // last position that the query attends to; −1: no query
};

template <quant::KvFormat format, int kDim, int kTiles, bool kWindowed>
struct TileOfQueries {
  using S = Share<format, kDim>;
  using Elements = KvElements<format>;
  using Sum = typename Elements::Sum;
  using Memory = Shared<format, kDim, kTiles>;
  static constexpr int kWideTiles = Memory::kWideTiles;
  // Number of key vectors, and of value vectors, that a lane loads ahead into registers.
  static constexpr int kKeysAhead = (kTiles == 1 ? 4 : 2) / (kDim <= 128 ? 1 : 2);
  static constexpr int kValuesAhead = kTiles == 1 && kDim <= 128 ? 2 : 1;

  const KvPages& pages;
  Memory& shared;
  int g, t, warp;
  int num_tiles;

  QRL_DEVICE static int step_at(int s, int warp) { return (s * kWarps + warp) * kStep; }

  QRL_DEVICE void prefetch_round(int round, int count) const {
    constexpr int kMostLines = kDim * Elements::kBytes / 128, kLines = kMostLines == 0 ? 1 : kMostLines;
    const int from = step_at(round % kSteps, warp);
    if (round >= 2 * kSteps || from >= count) return;
    const std::uint8_t* quantized = round < kSteps ? pages.keys : pages.values;
#pragma unroll
    for (int i = 0; i < kStep * kLines; i += 32) {
      const int position = (i + lane_idx()) / kLines, at = (i + lane_idx()) % kLines * 128;
      if (position < kStep && at < pages.at.slot_bytes()) prefetch(quantized + shared.bytes_at[from + position] + at);
    }
  }
  QRL_DEVICE void prefetch_first(int count) const {
#pragma unroll
    for (int round = 0; round < rounds_ahead(format); ++round) prefetch_round(round, count);
  }

  QRL_DEVICE void load_keys(int unit, int count, Words<4> (&to)[2]) const {
    const int from = step_at(unit / S::kKeyVectors, warp), vector = 4 * (unit % S::kKeyVectors) + t;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      to[h] = {};
      if (from < count && vector * 16 < pages.at.slot_bytes())
        to[h] = *reinterpret_cast<const Words<4>*>(pages.keys + shared.bytes_at[from + 8 * h + g] + vector * 16);
    }
  }

  /// Computes score[s][n][h][j], the score of query 8n + g at position step_at(s) + 8h + 2t + j of the chunk. Scores of
  /// masked positions are −∞: later ones, and those `window` or more positions before the query.
  QRL_DEVICE void make_scores(int first_position, int count, [[maybe_unused]] std::int32_t window,
                              float (&score)[kSteps][kTiles][2][2]) {
    std::int32_t last_position[kTiles];
#pragma unroll
    for (int n = 0; n < kTiles; ++n) last_position[n] = shared.last_position[8 * n + g];
    Words<4> keys[kKeysAhead][2];
#pragma unroll
    for (int unit = 0; unit < kKeysAhead; ++unit) load_keys(unit, count, keys[unit]);
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int from = step_at(s, warp);
      prefetch_round(s + rounds_ahead(format), count);
      Sum sums[Elements::kTerms][kWideTiles][2][4] = {};
#pragma unroll
      for (int p = 0; p < S::kKeyVectors; ++p) {
        const int unit = s * S::kKeyVectors + p;
        Words<4>(&now)[2] = keys[unit % kKeysAhead];
        if (from < count) multiply_keys(p, now, sums);
        if (unit + kKeysAhead < kSteps * S::kKeyVectors) load_keys(unit + kKeysAhead, count, now);
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int idx = from + 8 * h + 2 * t + j;
          const float key_scale = Elements::kScaled && idx < count ? shared.key_scales[idx] : 1.0F;
#pragma unroll
          for (int n = 0; n < kTiles; ++n) {
            bool seen = idx < count && first_position + idx <= last_position[n];
            if constexpr (kWindowed) seen = seen && last_position[n] - (first_position + idx) < window;
            Sum terms[Elements::kTerms];
#pragma unroll
            for (int term = 0; term < Elements::kTerms; ++term) terms[term] = sums[term][n / 2][h][n % 2 * 2 + j];
            const float of_query = Elements::total(terms) * shared.score_scales[8 * n + g];
            score[s][n][h][j] = seen ? of_query * key_scale : -INFINITY;
          }
        }
      }
    }
  }

  QRL_DEVICE void multiply_keys(int vector, const Words<4> (&keys)[2],
                                Sum (&sums)[Elements::kTerms][kWideTiles][2][4]) {
#pragma unroll
    for (int i = 0; i < S::kKeySteps; ++i) {
      std::uint32_t key[2][2];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        Elements::key_words(keys[h].word, i, key[h]);
      }
#pragma unroll
      for (int m = 0; m < kWideTiles; ++m) {
        if (2 * m >= num_tiles) break;
#pragma unroll
        for (int term = 0; term < Elements::kTerms; ++term) {
          const std::uint32_t* fragment = shared.queries[term][m][vector * S::kKeySteps + i][4 * g + t];
          const std::uint32_t query[4] = {fragment[0], fragment[1], fragment[2], fragment[3]};
#pragma unroll
          for (int h = 0; h < 2; ++h) Elements::multiply_keys(sums[term][m][h], query, key[h]);
        }
      }
    }
  }

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

  QRL_DEVICE void put(const float (&values)[kTiles], float Stats::*which) const {
    if (t != 0) return;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) shared.stats[warp][8 * n + g].*which = values[n];
  }

  /// Converts scores to softmax weights in the layout of mma operands. Sums each query's weights over the warp. 16-bit
  /// weights are rounded before they are summed. With int8 pages, weights are summed, multiplied by the values' scales,
  /// then split into two terms.
  QRL_DEVICE void make_weights(float (&score)[kSteps][kTiles][2][2], const float (&largest)[kTiles],
                               std::uint32_t (&weight)[kSteps][kTiles][2], float (&sum)[kTiles]) const {
    float inverse[kTiles] = {};
    if constexpr (Elements::kScaled) scale_weights(score, largest, sum, inverse);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (!Elements::kScaled) sum[n] = 0;
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        if constexpr (Elements::kScaled) {
          Elements::quantize_weights(score[s][n], inverse[n], weight[s][n]);
        } else {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const float* at = score[s][n][h];
            float weights[2] = {weight_of(at[0], largest[n]), weight_of(at[1], largest[n])};
            weight[s][n][h] = Elements::pair_of(weights[0], weights[1]);
            sum[n] += weights[0];
            sum[n] += weights[1];
          }
        }
      }
      sum[n] += shuffle_xor(sum[n], 1);
      sum[n] += shuffle_xor(sum[n], 2);
    }
  }
  QRL_DEVICE static float weight_of(float score, float largest) {
    return score == -INFINITY ? 0.0F : exp2f((score - largest) * kLog2E);
  }

  /// Converts scores to weights and sums the weights. Then multiplies each weight by its value's scale. Writes each
  /// query's quantization step of these products to weight_units.
  QRL_DEVICE void scale_weights(float (&score)[kSteps][kTiles][2][2], const float (&largest)[kTiles],
                                float (&sum)[kTiles], float (&inverse)[kTiles]) const {
    std::uint32_t most[kTiles];  // bits of a float, in which NaN is above all numbers
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      sum[n] = 0;
      most[n] = 0;
    }
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const float value_scale = shared.value_scales[step_at(s, warp) + 8 * h + 2 * t + j];
#pragma unroll
          for (int n = 0; n < kTiles; ++n) {
            float& one = score[s][n][h][j];
            const bool seen = one != -INFINITY;
            one = weight_of(one, largest[n]);
            sum[n] += one;
            if (seen) one *= value_scale;
            most[n] = magnitude_of(one) > most[n] ? magnitude_of(one) : most[n];
          }
        }
      }
    }
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int mask = 1; mask <= 2; mask *= 2) {
        const std::uint32_t other = shuffle_xor(most[n], mask);
        most[n] = other > most[n] ? other : most[n];
      }
      inverse[n] = Elements::weight_inverse(float_of(most[n]));
      if (t == 0) shared.weight_units[warp][8 * n + g] = Elements::weight_unit(float_of(most[n]));
    }
    sync_warp();
  }

  using ValueWords = Words<S::kValueBytes / 4>;
  /// Loads values of positions 2t, 2t + 1, 2t + 8, 2t + 9 of each mma step.
  QRL_DEVICE void load_values(int unit, int count, ValueWords (&to)[Elements::kSteps][4]) const {
    const int at = (8 * (unit % S::kValueVectors) + g) * S::kValueBytes;
#pragma unroll
    for (int i = 0; i < Elements::kSteps; ++i) {
      const int from = step_at(unit / S::kValueVectors * Elements::kSteps + i, warp);
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        to[i][r] = {};
        if (from >= count || at >= pages.at.slot_bytes()) continue;
        const std::int64_t slot_at = shared.bytes_at[from + r / 2 * 8 + 2 * t + r % 2];
        to[i][r] = *reinterpret_cast<const ValueWords*>(pages.values + slot_at + at);
      }
    }
  }

  /// Adds weights · values to context[p][j][n]. Its four sums are elements 2j and 2j + 1 of a value's vector p, each
  /// for queries 8n + 2t and 8n + 2t + 1.
  QRL_DEVICE void add_values(const std::uint32_t (&weight)[kSteps][kTiles][2], int count,
                             Sum (&context)[S::kValueVectors][S::kValueTiles][kTiles][4]) {
    constexpr int kUnits = kSteps / Elements::kSteps * S::kValueVectors;
    ValueWords values[kValuesAhead][Elements::kSteps][4];
#pragma unroll
    for (int unit = 0; unit < kValuesAhead; ++unit) load_values(unit, count, values[unit]);
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit) {
      const int p = unit % S::kValueVectors, first_step = unit / S::kValueVectors * Elements::kSteps;
      ValueWords(&now)[Elements::kSteps][4] = values[unit % kValuesAhead];
      if (p == 0) {
#pragma unroll
        for (int i = 0; i < Elements::kSteps; ++i)
          prefetch_round(kSteps + first_step + i + rounds_ahead(format), count);
      }
      if (step_at(first_step, warp) < count) {
#pragma unroll
        for (int j = 0; j < S::kValueTiles; ++j) {
          std::uint32_t value[4];
          Elements::value_words(now, j, value);
#pragma unroll
          for (int n = 0; n < kTiles; ++n) {
            std::uint32_t weights[Elements::kSteps][2];
#pragma unroll
            for (int i = 0; i < Elements::kSteps; ++i) {
              weights[i][0] = weight[first_step + i][n][0];
              weights[i][1] = weight[first_step + i][n][1];
            }
            if (n < num_tiles) Elements::multiply_weights(context[p][j][n], value, weights);
          }
        }
      }
      if (unit + kValuesAhead < kUnits) load_values(unit + kValuesAhead, count, now);
    }
  }

  /// Calls body(to, value) for the elements in half kHalf of each vector of the warp's contexts. `value` is an element
  /// in fp32. `to` is its place in the shared context of the warp's pair.
  template <int kHalf, class Body>
  QRL_DEVICE void each_of_half(const Sum (&context)[S::kValueVectors][S::kValueTiles][kTiles][4], Body body) const {
    constexpr int kFirst = kHalf * S::kValueTiles / 2;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (n >= num_tiles) break;
#pragma unroll
      for (int p = 0; p < S::kValueVectors; ++p) {
#pragma unroll
        for (int j = kFirst; j < kFirst + S::kValueTiles / 2; ++j) {
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            const int query = 8 * n + 2 * t + c % 2;
            float value = static_cast<float>(context[p][j][n][c]);
            if (Elements::kScaled) value *= shared.weight_units[warp][query];
            body(shared.context[warp / 2][query][(8 * p + g) * S::kValueElements + 2 * j + c / 2], value);
          }
        }
      }
    }
  }

  /// Sums the warps' contexts of a chunk into shared memory in fp32: warps 0 and 1 into context[0], warps 2 and 3 into
  /// context[1]. Readers add context[0] and context[1].
  QRL_DEVICE void sum_contexts(const Sum (&context)[S::kValueVectors][S::kValueTiles][kTiles][4]) const {
    static_assert(S::kValueTiles % 2 == 0);
    const auto write = [](float& to, float value) { to = value; };
    const auto add = [](float& to, float value) { to += value; };
    if (warp % 2 == 0) each_of_half<1>(context, write);
    else each_of_half<0>(context, write);
    sync_block();
    if (warp % 2 == 0) each_of_half<0>(context, add);
    else each_of_half<1>(context, add);
    sync_block();
  }
};

}  // namespace qrl::cuda::QRL_CUDA_TARGET
