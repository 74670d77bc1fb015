// Owns the GEMM for few rows, as in decoding. Reading the weights limits its speed. cp.async loads run ahead, weights
// are dequantized in registers, and every warp has its own outputs and inputs.
//
// The inputs of a chunk of 128 may be multiplied in any order that x and W share. A lane multiplies the inputs of its
// own 16-byte loads of weights, without shuffles or transposition. With groups of fewer inputs than a chunk, a lane
// instead has every fourth word of a row, so that four lanes multiply one group at a time.
#include <string>
#include <type_traits>

#include "base/error.h"
#include "cuda/gemm/streamed_gemm.h"
#include "cuda/runtime/target.h"
#include "cuda/runtime/widen.cuh"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

using quant::Element;

constexpr int kOutputWarps = 4;  // warps per chunk, each with its own outputs; a step has two chunks
constexpr int kThreads = 2 * kOutputWarps * 32;
constexpr int kVector = 16;  // bytes per load
constexpr int kInputs = static_cast<int>(kInputChunk);

struct alignas(16) Words {
  std::uint32_t word[4];
};

struct alignas(8) Pair {
  std::uint32_t word[2];
};

struct StreamTask {
  GemmTask gemm;
  std::int64_t num_splits;
  bool splits_apart;
  StreamPlace place;
};

constexpr int element_bits(Element element) { return element == Element::bf16 ? 16 : element == Element::int4 ? 4 : 8; }

/// scale_inputs_: inputs per weight scale of an output; 0: all.
template <Element x_element_, Element w_element_, int scale_inputs_>
struct Operands {
  static constexpr Element x_element = x_element_, w_element = w_element_;
  static constexpr bool chunk_scaled = scale_inputs_ != 0;
  static constexpr int kScales = chunk_scaled ? kInputs / scale_inputs_ : 0;  // per chunk and output
  /// If set, a lane has pieces of 8 inputs, words t, 4 + t, 8 + t and 12 + t of an output's chunk.
  static constexpr bool by_pieces = kScales > 1;
  /// If set, x also has one scale per chunk (block128).
  static constexpr bool x_chunk_scaled = chunk_scaled && w_element == Element::fp8_e4m3;
  static constexpr bool output_scaled = !chunk_scaled && w_element != Element::bf16;
  /// If set, e4m3 operands, and int4 weights used with e4m3 activations, are converted to fp16.
  static constexpr bool to_f16 = x_element == Element::fp8_e4m3;
  using Sum = std::conditional_t<x_element == Element::int8, std::int32_t, float>;
  using Total = std::conditional_t<chunk_scaled, float, Sum>;
  static constexpr int kXBytes = kInputs * element_bits(x_element) / 8;  // bytes per chunk
  static constexpr int kWBytes = kInputs * element_bits(w_element) / 8;
  /// Number of 16-byte vectors of x, and of W, that each of a row's four lanes has per chunk. A lane's vectors of x and
  /// of W cover the same inputs.
  static constexpr int kXVectors = kXBytes / kVector / 4, kWVectors = kWBytes / kVector / 4;
  static constexpr int kWords = x_element == Element::fp8_e4m3 ? 8 : 4;
  /// Number of parts of a chunk. A part has two of a lane's vectors of x, and kPartWords words of W per output. Larger
  /// parts would spill registers.
  static constexpr int kParts = kXVectors / 2, kPartWords = 4 * kWVectors / kParts;
  /// Number of pieces in one of a lane's vectors of x, and bytes of a piece.
  static constexpr int kPieces = 4 / kXVectors, kPieceBytes = by_pieces ? kXBytes / 16 : kVector;
};

template <class C>
QRL_DEVICE bool adds(const GemmTask& task) {
  return C::w_element == Element::bf16 && task.adds_to_y;
}

// Returns the index of the vector of x that lane t (of a row's four lanes) reads in iteration `turn`. The four lanes'
// vectors are adjacent. Vectors of consecutive rows are in different banks.
template <class C>
QRL_DEVICE unsigned x_vector_at(unsigned row, unsigned turn, unsigned t) {
  return row * 4 * C::kXVectors + 4 * (turn ^ row % 2) + t;
}

template <class C>
QRL_DEVICE void dequantize_x(const Words& vector, std::uint32_t (&to)[C::kWords]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (C::x_element != Element::fp8_e4m3) {
      to[i] = vector.word[i];
    } else {
      widen_fp8(vector.word[i], to[2 * i], to[2 * i + 1]);
    }
  }
}

template <class C>
QRL_DEVICE void load_part(const unsigned char* vectors, int part, std::uint32_t (&to)[C::kPartWords]) {
  if constexpr (C::kPartWords == 2) {
    const Pair pair = *reinterpret_cast<const Pair*>(vectors + part * 8);
    to[0] = pair.word[0];
    to[1] = pair.word[1];
  } else {
    constexpr int kVectors = C::kWVectors / C::kParts;
#pragma unroll
    for (int j = 0; j < kVectors; ++j) {
      const Words words = *reinterpret_cast<const Words*>(vectors + (part * kVectors + j) * 32 * kVector);
#pragma unroll
      for (int i = 0; i < 4; ++i) to[4 * j + i] = words.word[i];
    }
  }
}

/// Dequantizes one output's weights for vector `t` of a part's two vectors of x. With int8 activations, int4 weights
/// come out multiplied by 16.
template <class C>
QRL_DEVICE void dequantize_w(const std::uint32_t (&words)[C::kPartWords], int t, std::uint32_t (&to)[C::kWords]) {
  if constexpr (C::w_element == Element::int8 || C::w_element == Element::bf16) {
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i] = words[4 * t + i];
  } else if constexpr (C::w_element == Element::fp8_e4m3) {
#pragma unroll
    for (int i = 0; i < 4; ++i) widen_fp8(words[4 * t + i], to[2 * i], to[2 * i + 1]);
  } else if constexpr (C::x_element == Element::int8) {
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      to[2 * u] = (words[2 * t + u] << 4) & 0xf0f0f0f0U;
      to[2 * u + 1] = words[2 * t + u] & 0xf0f0f0f0U;
    }
  } else {
    constexpr int kEach = C::kWords / 4;
#pragma unroll
    for (int u = 0; u < kEach; ++u) widen_int4<C::to_f16>(words[kEach * t + u], to + 4 * u);
  }
}

template <class C, int tile_idx>
struct Streamed {
  static constexpr StreamTile kTile = kStreamTiles[tile_idx];
  static constexpr int kRows = kTile.rows, kOutputs = kTile.outputs;
  static constexpr int kStages = num_stages(kTile, element_bits(C::w_element));
  static constexpr int kRowTiles = kRows / 8;  // tiles of 8 rows, one per mma
  static constexpr int kOutputTiles = kOutputs / (16 * kOutputWarps);
  static constexpr int kWarpOutputs = 16 * kOutputTiles, kLaneOutputs = 2 * kOutputTiles;
  static constexpr StreamBytes kBytes =
      stream_bytes(kTile, element_bits(C::w_element), element_bits(C::x_element), C::kScales, C::x_chunk_scaled);
  static_assert(kBytes.sums <= kStages * kBytes.stage() && kBytes.stage() % kVector == 0);
  static constexpr int kTotals = kOutputTiles * kRowTiles * 4;  // sums per lane
  using Sum = typename C::Sum;
  using Total = typename C::Total;

  /// Holds a lane's sums in its warp's tiles, [16 outputs, 8 rows] each. The four sums per tile are two rows of one
  /// output, then the same rows of the next output.
  template <class T>
  struct Lane {
    T at[kOutputTiles][kRowTiles][4];
    QRL_DEVICE void clear() {
#pragma unroll
      for (int m = 0; m < kOutputTiles; ++m) {
#pragma unroll
        for (int n = 0; n < kRowTiles; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) at[m][n][e] = T{0};
        }
      }
    }
    template <class Body>
    QRL_DEVICE void each(Body body) {
#pragma unroll
      for (int m = 0; m < kOutputTiles; ++m) {
#pragma unroll
        for (int n = 0; n < kRowTiles; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) body(at[m][n][e], (m * kRowTiles + n) * 4 + e);
        }
      }
    }
  };

  struct Place {
    std::int64_t first_row, first_output, warp_output;
    int output_warp, half, q, t;  // q, t: lane / 4, lane % 4
    bool has_outputs;
  };
  QRL_DEVICE static Place place(const StreamTask& task) {
    Place at;
    at.first_row = block_x() * kRows;
    at.first_output = block_y() / (task.splits_apart ? task.num_splits : 1) * kOutputs;
    at.output_warp = warp_idx() % kOutputWarps;
    at.half = warp_idx() / kOutputWarps;
    at.q = lane_idx() / 4;
    at.t = lane_idx() % 4;
    at.warp_output = at.first_output + at.output_warp * kWarpOutputs;
    at.has_outputs = at.warp_output < task.gemm.w.at.rows;
    return at;
  }
  /// Returns which output of its warp a lane has in row q of mma tile m, or in row q + 8 if `upper` is 1. A lane's
  /// outputs are adjacent.
  QRL_DEVICE static int output_of(const Place& at, int m, int upper) { return at.q * kLaneOutputs + 2 * m + upper; }

  /// Returns the byte offset of vector j of an output's weights in a stage. Only this lane accesses the vector.
  QRL_DEVICE static int w_vector_at(int m, int upper, int j) {
    return ((warp_idx() * kLaneOutputs + 2 * m + upper) * C::kWVectors + j) * 32 * kVector + lane_idx() * kVector;
  }

  /// Start loading the weights (or rows of x) of chunks `chunk` and `chunk` + 1. Skip chunk `end` and later chunks.
  QRL_DEVICE static void load_weights(const GemmTask& task, const Place& at, unsigned char* stage, std::int64_t chunk,
                                      std::int64_t end) {
    const MatrixLayout& w = task.w.at;
    const std::int64_t own_chunk = chunk + at.half;
    if (own_chunk < end && at.has_outputs) {
      constexpr int kWordBytes = 4;
      const std::uint8_t* from = task.w.quantized + (at.warp_output + at.q * kLaneOutputs) * w.row_bytes +
                                 at.t * (C::by_pieces ? kWordBytes : kVector);
      from += own_chunk * C::kWBytes;
#pragma unroll
      for (int m = 0; m < kOutputTiles; ++m) {
#pragma unroll
        for (int upper = 0; upper < 2; ++upper) {
          if constexpr (C::by_pieces) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
              copy_async_4(stage + w_vector_at(m, upper, 0) + i * kWordBytes, from + i * 4 * kWordBytes, true);
          } else {
#pragma unroll
            for (int j = 0; j < C::kWVectors; ++j)
              copy_async_16(stage + w_vector_at(m, upper, j), from + j * 4 * kVector, true);
          }
          from += w.row_bytes;
        }
      }
      if (C::chunk_scaled && lane_idx() < kWarpOutputs / 4) {
        const int first = 4 * lane_idx();
#pragma unroll
        for (int g = 0; g < C::kScales; ++g) {
          const std::int64_t segment = own_chunk * C::kScales + g;
          unsigned char* to = stage + kBytes.w_scales_at() +
                              4 * ((at.half * C::kScales + g) * kOutputs + at.output_warp * kWarpOutputs + first);
          // Zeros stand for the scales of padding.
          copy_async_16(to, task.w.scales + segment * w.rows + at.warp_output + first, segment < w.num_scales);
        }
      }
    }
  }
  QRL_DEVICE static void load_rows(const GemmTask& task, const Place& at, unsigned char* stage, std::int64_t chunk,
                                   std::int64_t end) {
    constexpr unsigned kRowVectors = 4 * C::kXVectors, kBoth = 2 * kRows;
    constexpr unsigned kRowCopies = C::kXBytes / C::kPieceBytes, kAtOnce = kThreads / kRowCopies;
    const auto thread = static_cast<unsigned>(thread_idx());
    const unsigned p = thread % kRowCopies, first = thread / kRowCopies;
    const bool is_strided = C::w_element == Element::int4 && !C::by_pieces;
    const unsigned turn = is_strided ? p % C::kXVectors : p / (4 * (C::by_pieces ? C::kPieces : 1)),
                   t = is_strided ? p / C::kXVectors : p % 4;
    [[maybe_unused]] const unsigned piece = C::by_pieces ? p / 4 % C::kPieces : 0;
    const std::int64_t row_bytes = task.x.stride * (element_bits(C::x_element) / 8);
    const auto* x = static_cast<const std::uint8_t*>(task.x.quantized) + chunk * C::kXBytes + p * C::kPieceBytes;
#pragma unroll 2  // a larger factor spills registers
    for (unsigned k = 0; k < kBoth; k += kAtOnce) {
      const unsigned both = first + k, half = both / kRows, r = both % kRows;
      if ((kBoth < kAtOnce && both >= kBoth) || chunk + half >= end) break;
      const bool is_row = at.first_row + r < task.num_rows;
      const std::uint8_t* from = x + (is_row ? (at.first_row + r) * row_bytes : 0) + half * C::kXBytes;
      unsigned char* to = stage + kBytes.x_at() + (half * kRows * kRowVectors + x_vector_at<C>(r, turn, t)) * kVector;
      if constexpr (C::kPieceBytes == kVector) copy_async_16(to, from, is_row);
      else copy_async_8(to + piece * C::kPieceBytes, from, is_row);
    }
    if constexpr (C::x_chunk_scaled) {
      for (unsigned both = thread; both < kBoth; both += kThreads) {
        const unsigned half = both / kRows, r = both % kRows;
        if (chunk + half >= end) break;
        const bool is_row = at.first_row + r < task.num_rows;
        const float* from = task.x.scales + (is_row ? (at.first_row + r) * task.w.at.num_scales : 0) + chunk + half;
        copy_async_4(stage + kBytes.x_scales_at() + 4 * both, from, is_row);
      }
    }
  }

  /// Multiplies the warp's chunk. Calls end_group(group) where a group of inputs ends.
  template <class EndGroup>
  QRL_DEVICE static void multiply(const unsigned char* stage, const Place& at, Lane<Sum>& sums,
                                  const EndGroup& end_group) {
    const unsigned char* x_chunk = stage + kBytes.x_at() + at.half * (kBytes.x / 2);
    // A round multiplies the words [first, first + kRoundWords) of a vector. It is a whole vector unless groups end in
    // it.
    constexpr int kRounds = C::by_pieces && C::kScales > C::kXVectors ? C::kPieces : 1;
    constexpr int kRoundWords = C::kWords / kRounds,
                  kGroupRounds = C::kXVectors * kRounds / (C::kScales > 0 ? C::kScales : 1);
#pragma unroll 1
    for (int part = 0; part < C::kParts; ++part) {
      std::uint32_t w[kOutputTiles][2][C::kPartWords];
#pragma unroll
      for (int m = 0; m < kOutputTiles; ++m) {
        load_part<C>(stage + w_vector_at(m, 0, 0), part, w[m][0]);
        load_part<C>(stage + w_vector_at(m, 1, 0), part, w[m][1]);
      }
#pragma unroll
      for (int t = 0; t < 2; ++t) {
        std::uint32_t a[kOutputTiles][2][C::kWords];
#pragma unroll
        for (int m = 0; m < kOutputTiles; ++m) {
          dequantize_w<C>(w[m][0], t, a[m][0]);
          dequantize_w<C>(w[m][1], t, a[m][1]);
        }
        const auto turn = static_cast<unsigned>(2 * part + t), q = static_cast<unsigned>(at.q),
                   lane_t = static_cast<unsigned>(at.t);
#pragma unroll
        for (int round = 0; round < kRounds; ++round) {
#pragma unroll
          for (int n = 0; n < kRowTiles; ++n) {
            std::uint32_t b[C::kWords];
            dequantize_x<C>(
                *reinterpret_cast<const Words*>(x_chunk + x_vector_at<C>(8 * n + q, turn, lane_t) * kVector), b);
#pragma unroll
            for (int i = round * kRoundWords; i < (round + 1) * kRoundWords; i += 2) {
#pragma unroll
              for (int m = 0; m < kOutputTiles; ++m) {
                const std::uint32_t rows[4] = {a[m][0][i], a[m][1][i], a[m][0][i + 1], a[m][1][i + 1]};
                if constexpr (C::to_f16) mma_f16(sums.at[m][n], rows, b[i], b[i + 1]);
                else mma(sums.at[m][n], rows, b[i], b[i + 1]);
              }
            }
          }
          const int done = (2 * part + t) * kRounds + round + 1;
          if (C::chunk_scaled && done % kGroupRounds == 0) end_group(done / kGroupRounds - 1);
        }
      }
    }
  }

  /// Adds a group's sums to `totals`, scaled.
  QRL_DEVICE static void scale(const unsigned char* stage, const Place& at, int group, const Lane<Sum>& sums,
                               Lane<float>& totals) {
    const auto* w_scales = reinterpret_cast<const float*>(stage + kBytes.w_scales_at()) +
                           (at.half * C::kScales + group) * kOutputs + at.output_warp * kWarpOutputs;
    const auto* x_scales = reinterpret_cast<const float*>(stage + kBytes.x_scales_at()) + at.half * kRows;
#pragma unroll
    for (int m = 0; m < kOutputTiles; ++m) {
      const float of_outputs[2] = {w_scales[output_of(at, m, 0)], w_scales[output_of(at, m, 1)]};
#pragma unroll
      for (int n = 0; n < kRowTiles; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          float factor = of_outputs[e / 2];
          if constexpr (C::x_chunk_scaled) factor = x_scales[8 * n + 2 * at.t + e % 2] * factor;
          const Sum sum = sums.at[m][n][e];
          float value;
          if constexpr (C::x_element == Element::int8) value = static_cast<float>(sum >> 4);  // undoes the factor 16
          else value = sum;
          totals.at[m][n][e] = fmaf(value, factor, totals.at[m][n][e]);
        }
      }
    }
  }

  /// Sets `totals` to the sums over the warp's chunks: every second chunk of [begin, end), starting with begin +
  /// at.half.
  QRL_DEVICE static void sum_split(const GemmTask& task, const Place& at, std::int64_t begin, std::int64_t end,
                                   Lane<Total>& totals) {
    unsigned char* stages = shared_memory();
    const std::int64_t num_steps = ceil_div(end - begin, 2);
    totals.clear();
#pragma unroll
    for (int step = 0; step < kStages - 1; ++step) {
      if (step < num_steps) load_weights(task, at, stages + step * kBytes.stage(), begin + 2 * step, end);
    }
    wait_for_kernel_before();  // the previous kernel wrote x, but no weights
#pragma unroll
    for (int step = 0; step < kStages - 1; ++step) {
      if (step < num_steps) load_rows(task, at, stages + step * kBytes.stage(), begin + 2 * step, end);
      commit_copies();
    }
    int stage_idx = 0, free_idx = kStages - 1;
    for (std::int64_t step = 0; step < num_steps; ++step) {
      wait_copies<kStages - 2>();
      sync_block();  // now all threads see this step's copies and no longer read the previous stage
      const std::int64_t ahead = step + kStages - 1;
      if (ahead < num_steps) {
        load_weights(task, at, stages + free_idx * kBytes.stage(), begin + 2 * ahead, end);
        load_rows(task, at, stages + free_idx * kBytes.stage(), begin + 2 * ahead, end);
      }
      commit_copies();
      const unsigned char* stage = stages + stage_idx * kBytes.stage();
      if (begin + 2 * step + at.half < end && at.has_outputs) {
        if constexpr (C::chunk_scaled) {
          Lane<Sum> sums;
          sums.clear();
          multiply(stage, at, sums, [&](int group) {
            scale(stage, at, group, sums, totals);
            sums.clear();
          });
        } else {
          multiply(stage, at, totals, [](int) {});
        }
      }
      free_idx = stage_idx;
      stage_idx = stage_idx + 1 == kStages ? 0 : stage_idx + 1;
    }
    wait_copies<0>();
    sync_block();  // afterwards the stages' memory is free
  }

  QRL_DEVICE static void add_halves(const Place& at, Lane<Total>& totals) {
    auto* exchange = reinterpret_cast<Total*>(shared_memory());
    const int thread = thread_idx() % (kThreads / 2);
    if (at.half == 1) totals.each([&](Total& total, int i) { exchange[i * (kThreads / 2) + thread] = total; });
    sync_block();
    if (at.half == 0) totals.each([&](Total& total, int i) { total += exchange[i * (kThreads / 2) + thread]; });
  }

  /// Adds the sums of a tile's splits in order, through device memory. Returns true in the last block to finish. Its
  /// `totals` then hold the sum.
  QRL_DEVICE static bool add_apart(const StreamTask& task, const Place& at, std::int64_t split, Lane<Total>& totals) {
    const std::int64_t sum_tile = block_y() / task.num_splits * num_blocks_x() + block_x();
    constexpr std::int64_t kWords = kTotals * (kThreads / 2);
    std::uint32_t* of_tile = task.place.partials + sum_tile * task.num_splits * kWords;
    const int thread = thread_idx() % (kThreads / 2);
    if (at.half == 0) {
      std::uint32_t* own = of_tile + split * kWords;
      totals.each([&](Total& total, int i) { own[i * (kThreads / 2) + thread] = to_word(total); });
    }
    fence_device();
    auto* is_last = reinterpret_cast<std::uint32_t*>(shared_memory() + kStages * kBytes.stage());
    sync_block();
    if (thread_idx() == 0) {
      *is_last = count_up(task.place.counters + sum_tile) + 1 == task.num_splits ? 1U : 0U;
      if (*is_last != 0) task.place.counters[sum_tile] = 0;
    }
    sync_block();
    if (*is_last == 0) return false;
    fence_device();
    if (at.half == 0) {
      totals.each([&](Total& total, int i) {
        const std::uint32_t* words = of_tile + i * (kThreads / 2) + thread;
        total = from_word(load_shared_word(words));
        for (std::int64_t other = 1; other < task.num_splits; ++other)
          total += from_word(load_shared_word(words + other * kWords));
      });
    }
    return true;
  }
  QRL_DEVICE static std::uint32_t to_word(float value) { return bits_of(value); }
  QRL_DEVICE static std::uint32_t to_word(std::int32_t value) { return static_cast<std::uint32_t>(value); }
  QRL_DEVICE static Total from_word(std::uint32_t word) {
    if constexpr (std::is_same_v<Total, float>) return float_of(word);
    else return static_cast<Total>(word);
  }

  QRL_DEVICE static void store(const GemmTask& task, const Place& at, const Lane<Total>& totals) {
#pragma unroll
    for (int n = 0; n < kRowTiles; ++n) {
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        const std::int64_t row = at.first_row + 8 * n + 2 * at.t + odd;
        if (row >= task.num_rows) continue;
        const float x_scale = task.x.scales == nullptr || C::x_chunk_scaled ? 1.0F : task.x.scales[row];
#pragma unroll
        for (int m = 0; m < kOutputTiles; ++m) {
          const std::int64_t output = at.warp_output + output_of(at, m, 0);
          float values[2];
#pragma unroll
          for (int upper = 0; upper < 2; ++upper) {
            const auto total = static_cast<float>(totals.at[m][n][2 * upper + odd]);
            const float factor = C::output_scaled ? x_scale * task.w.scales[output + upper] : x_scale;
            values[upper] = total * factor;
          }
          const std::int64_t to = row * task.y_stride + output;
          if (task.y_is_f32) {
            auto* y = static_cast<float*>(task.y) + to;
            y[0] = adds<C>(task) ? y[0] + values[0] : values[0];
            y[1] = adds<C>(task) ? y[1] + values[1] : values[1];
          } else {
            auto* y = reinterpret_cast<std::uint32_t*>(static_cast<std::uint16_t*>(task.y) + to);
            if (adds<C>(task)) {
              values[0] += float_of(*y << 16);
              values[1] += float_of(*y & 0xffff0000U);
            }
            *y = static_cast<std::uint32_t>(bf16_of(values[0])) | static_cast<std::uint32_t>(bf16_of(values[1])) << 16;
          }
        }
      }
    }
  }

  QRL_DEVICE static void run_block(const StreamTask& task) {
    const Place at = place(task);
    const std::int64_t num_chunks = task.gemm.w.at.width / kInputs;
    const auto begin_of = [&](std::int64_t split) { return split * num_chunks / task.num_splits; };
    Lane<Total> totals;
    if (task.splits_apart) {
      const std::int64_t split = block_y() % task.num_splits;
      sum_split(task.gemm, at, begin_of(split), begin_of(split + 1), totals);
      add_halves(at, totals);
      if (!add_apart(task, at, split, totals)) return;
    } else {
      auto* kept = reinterpret_cast<Total*>(shared_memory() + kStages * kBytes.stage() + kVector);
      for (std::int64_t split = 0; split < task.num_splits; ++split) {
        sum_split(task.gemm, at, begin_of(split), begin_of(split + 1), totals);
        add_halves(at, totals);
        if (task.num_splits == 1) break;
        if (at.half == 0) {
          const bool is_first = split == 0;
          totals.each([&](Total& total, int i) {
            Total& mine = kept[i * (kThreads / 2) + thread_idx()];
            mine = total = is_first ? total : mine + total;
          });
        }
        sync_block();  // the next split's loads overwrite add_halves' memory
      }
    }
    if (at.half == 0 && at.has_outputs) store(task.gemm, at, totals);
  }

  static void run(const GemmTask& task, const StreamPlan& plan, const StreamPlace& place, const Stream& stream);
};

template <class C, int tile_idx>
QRL_KERNEL_OF(kThreads, kStreamTiles[tile_idx].outputs == 64 ? 2 : 1)
void streamed_kernel(StreamTask task) {
  Streamed<C, tile_idx>::run_block(task);
}

template <class C, int tile_idx>
void Streamed<C, tile_idx>::run(const GemmTask& task, const StreamPlan& plan, const StreamPlace& place,
                                const Stream& stream) {
  const std::int64_t splits = num_splits(task.w.at);
  const std::int64_t blocks_a_tile = plan.splits_apart ? splits : 1;
  // The grid's x counts tiles of rows, so that consecutive blocks read the same weights.
  const Grid grid{ceil_div(task.num_rows, kRows), ceil_div(task.w.at.rows, kOutputs) * blocks_a_tile};
  QRL_INVARIANT(!plan.splits_apart || (ceil_div(grid.y, splits) * grid.x <= kStreamCounters &&
                                       grid.x * grid.y * kBytes.sums <= kStreamPartialBytes),
                "streamed GEMM", "splits whose sums have room",
                std::to_string(grid.x) + " x " + std::to_string(grid.y));
  const int shared_bytes = kBytes.all(kStages, splits > 1 && !plan.splits_apart);
  launch(streamed_kernel<C, tile_idx>, grid, kThreads, static_cast<std::size_t>(shared_bytes), stream,
         StreamTask{task, splits, plan.splits_apart, place});
}

template <Element x_element, Element w_element, int scale_inputs = 0>
void run(const GemmTask& task, const StreamPlan& plan, const StreamPlace& place, const Stream& stream) {
  using C = Operands<x_element, w_element, scale_inputs>;
  switch (plan.tile.rows) {
    case kStreamTiles[0].rows:
      return Streamed<C, 0>::run(task, plan, place, stream);
    case kStreamTiles[1].rows:
      return Streamed<C, 1>::run(task, plan, place, stream);
    case kStreamTiles[2].rows:
      return Streamed<C, 2>::run(task, plan, place, stream);
    case kStreamTiles[3].rows:
      if constexpr (has_tile(kStreamTiles[3], element_bits(x_element), scale_inputs))
        return Streamed<C, 3>::run(task, plan, place, stream);
      [[fallthrough]];
    default:
      base::fail_internal("streamed GEMM", "a tile of kStreamTiles", std::to_string(plan.tile.rows) + " rows");
  }
}

}  // namespace

void streamed_gemm(const GemmTask& task, const StreamPlan& plan, const StreamPlace& place, const Stream& stream) {
  using quant::Format;
  QRL_INVARIANT(task.y_stride % 2 == 0 && task.x.stride % kInputChunk == 0, "streamed GEMM",
                "input rows of whole chunks and output rows of whole words", std::to_string(task.y_stride));
  QRL_INVARIANT(!task.adds_to_y || task.w.format == Format::bf16, "streamed GEMM", "bf16 weights for a GEMM that adds",
                std::string(name(task.w.format)));
  switch (task.w.format) {
    case Format::f32:
      break;
    case Format::bf16:
      return run<Element::bf16, Element::bf16>(task, plan, place, stream);
    case Format::int8:
      return run<Element::int8, Element::int8>(task, plan, place, stream);
    case Format::fp8_tensor:
    case Format::fp8_channel:
      return run<Element::fp8_e4m3, Element::fp8_e4m3>(task, plan, place, stream);
    case Format::fp8_block128:
      return run<Element::fp8_e4m3, Element::fp8_e4m3, 128>(task, plan, place, stream);
    case Format::int4:
      return run<Element::bf16, Element::int4, 128>(task, plan, place, stream);
    case Format::int4_int8:
      return run<Element::int8, Element::int4, 128>(task, plan, place, stream);
    case Format::int4_fp8:
      return run<Element::fp8_e4m3, Element::int4, 128>(task, plan, place, stream);
    case Format::int4_g64:
      return run<Element::bf16, Element::int4, 64>(task, plan, place, stream);
    case Format::int4_int8_g64:
      return run<Element::int8, Element::int4, 64>(task, plan, place, stream);
    case Format::int4_fp8_g64:
      return run<Element::fp8_e4m3, Element::int4, 64>(task, plan, place, stream);
    case Format::int4_g32:
      return run<Element::bf16, Element::int4, 32>(task, plan, place, stream);
    case Format::int4_int8_g32:
      return run<Element::int8, Element::int4, 32>(task, plan, place, stream);
    case Format::int4_fp8_g32:
      return run<Element::fp8_e4m3, Element::int4, 32>(task, plan, place, stream);
  }
  base::fail_internal("streamed GEMM", "a supported format", std::string(name(task.w.format)));
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
