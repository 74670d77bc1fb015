// Implements the matmuls of e4m3 and int4 weights. For few rows, dequantizes weights in registers. For many,
// dequantizes each panel once into L2 and prefetches the next. Both add in input order and scale the sum when a scale's
// inputs end.
#include "ops/kernels/linear_dequantized.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

namespace {

constexpr int kAskedLines = 2;  // lines prefetched per stored word: half a panel row

/// Holds one row's sums for a vector of columns. `open` is the unscaled sum of the current scale's inputs, `scaled` the
/// scaled sum of earlier inputs.
template <class F>
struct Sums {
  typename F::Accumulator open;
  VecF scaled;
};

/// Adds the products of a chunk of inputs to the sums of Rows rows × Vectors vectors of columns. The chunk at input 0
/// overwrites the sums. weights(word, step, vector, to) dequantizes stored word `word` and writes kAtOnce of its words,
/// from word `step` on, to `to`. `ask` is called once per stored word, to prefetch.
template <class F, int Rows, int Vectors, class Weights, class Ask>
inline void add_chunk(const LinearTask& task, std::int64_t row, std::int64_t column, const Chunk& chunk,
                      const Weights& weights, const Ask& ask, Sums<F> (*sums)[Vectors]) {
  using Element = typename F::Element;
  typename F::Accumulator open[Rows][Vectors];
  for (int v = 0; v < Vectors; ++v) {
    const typename F::Accumulator fresh = F::start(task, chunk.segment, column + v * kLanes);
    for (int r = 0; r < Rows; ++r) open[r][v] = chunk.first ? fresh : sums[r][v].open;
  }
  const auto* x = static_cast<const Element*>(task.x) + row * task.x_stride + chunk.begin / F::kGroup * F::kInputStep;
  const std::int64_t words = words_of(chunk.end - chunk.begin, F::Values::kInputs);
  for (std::int64_t word = 0; word < words; ++word) {
    ask();
    for (int step = 0; step < F::Values::kSteps; step += F::Values::kAtOnce) {
      VecI dequantized[Vectors][F::Values::kAtOnce];
      for (int v = 0; v < Vectors; ++v) weights(word, step, v, dequantized[v]);
      for (int i = 0; i < F::Values::kAtOnce; ++i, x += F::kInputStep) {
        for (int r = 0; r < Rows; ++r) {
          const typename F::Input input = F::input(x + r * task.x_stride);
          for (int v = 0; v < Vectors; ++v) open[r][v] = F::dot(open[r][v], input, F::weights(dequantized[v][i]));
        }
      }
    }
  }
  const bool nothing_scaled = !F::kScaledChunks || chunk.begin == 0;
  for (int v = 0; v < Vectors; ++v) {
    const VecF weight_scale = F::weight_scale(task, chunk.segment, column + v * kLanes);
    for (int r = 0; r < Rows; ++r) {
      if (!chunk.last) {
        sums[r][v].open = open[r][v];
        continue;
      }
      const VecF number = F::number(open[r][v]);
      const VecF scale = scale_of_segment<F>(task, row + r, chunk.segment, weight_scale);
      sums[r][v].scaled = !F::kScaled ? number : fma(number, scale, nothing_scaled ? VecF{} : sums[r][v].scaled);
    }
  }
}

template <class F, int Rows, int Vectors>
inline void finish(const LinearTask& task, std::int64_t row, std::int64_t column, const Sums<F> (*sums)[Vectors]) {
  write_tile<Rows, Vectors>(task, row, column,
                            [&](int r, int v) { return scaled_by_row<F>(task, sums[r][v].scaled, row + r); });
}

template <class F, int Rows, int Vectors>
void dequantized_in_registers(const LinearTask& task, std::int64_t column) {
  Sums<F> sums[Rows][Vectors];
  const std::int32_t* panel = panel_at<F>(task, column) + column % kPanel;
  for_chunks<F>(task, 0, task.in, [&](const Chunk& chunk) {
    const std::int32_t* stored = panel + chunk.begin / F::Values::kInputs * kPanel;
    const auto weights = [stored](std::int64_t word, int step, int v, VecI(&to)[F::Values::kAtOnce]) {
      F::Values::dequantize(load_words(stored + word * kPanel + v * kLanes), step, to);
    };
    add_chunk<F, Rows, Vectors>(
        task, 0, column, chunk, weights, [] {}, sums);
  });
  finish<F, Rows, Vectors>(task, 0, column, sums);
}

/// Multiplies all rows by one panel, segment by segment of inputs. Dequantizes each segment once.
template <class F>
void dequantized_in_cache(const LinearTask& task, std::int64_t column) {
  using TileSums = Sums<F>[kTileVectors];
  constexpr std::int64_t kSegmentInputs = F::kGroup == 1 ? kLinearScratchInputs / 2 : kLinearScratchInputs;
  constexpr std::int64_t kTileColumns = kTileVectors * kLanes, kAskers = 2;
  const std::int64_t num_stored = words_of(task.in, F::Values::kInputs);
  const std::int32_t* panel = panel_at<F>(task, column);
  auto* words = reinterpret_cast<std::int32_t*>(task.scratch);
  auto* sums = reinterpret_cast<TileSums*>(words + kSegmentInputs / F::kGroup * kPanel);
  for (std::int64_t begin = 0; begin < task.in; begin += kSegmentInputs) {
    const std::int64_t end = begin + kSegmentInputs < task.in ? begin + kSegmentInputs : task.in;
    const std::int64_t first = begin / F::Values::kInputs, count = words_of(end - begin, F::Values::kInputs);
    dequantize<F>(panel + first * kPanel, count, words);
    // Prefetches the same segment of the next panel, in two halves.
    const auto* next = reinterpret_cast<const char*>(panel + (num_stored + first) * kPanel);
    std::int64_t asker = 0;
    for (std::int64_t offset = 0; offset < kPanel && column + offset < task.out; offset += kTileColumns) {
      for_row_tiles(task.rows, [&]<int Rows>(std::int64_t row) {
        const char* asked = next + asker++ % kAskers * count * kAskedLines * kLine;
        const auto ask = [&asked] {
          for (int i = 0; i < kAskedLines; ++i) __builtin_prefetch(asked + i * kLine, 0, 2);
          asked += kAskedLines * kLine;
        };
        TileSums* of_tile = sums + offset / kTileColumns * task.rows + row;
        for_chunks<F>(task, begin, end, [&](const Chunk& chunk) {
          const std::int32_t* from = words + (chunk.begin - begin) / F::kGroup * kPanel + offset;
          const auto weights = [from](std::int64_t word, int step, int v, VecI(&to)[F::Values::kAtOnce]) {
            for (int i = 0; i < F::Values::kAtOnce; ++i)
              to[i] = load_words(from + (word * F::Values::kSteps + step + i) * kPanel + v * kLanes);
          };
          add_chunk<F, Rows, kTileVectors>(task, row, column + offset, chunk, weights, ask, of_tile);
        });
        if (end < task.in) return;
        finish<F, Rows, kTileVectors>(task, row, column + offset, of_tile);
      });
    }
  }
}

template <class F>
void linear(const LinearTask& task) {
  const std::int64_t begin = task.first_panel * kPanel;
  const std::int64_t end = task.end_panel * kPanel < task.out ? task.end_panel * kPanel : task.out;
  if (task.rows == 1) {
    for (std::int64_t column = begin; column < end; column += kSingleRowVectors * kLanes)
      dequantized_in_registers<F, 1, kSingleRowVectors>(task, column);
  } else if (task.rows <= kTileRows) {
    with_rows<kTileRows>(task.rows, 0, [&]<int Rows>(std::int64_t) {
      for (std::int64_t column = begin; column < end; column += kTileVectors * kLanes)
        dequantized_in_registers<F, Rows, kTileVectors>(task, column);
    });
  } else {
    for (std::int64_t column = begin; column < end; column += kPanel) dequantized_in_cache<F>(task, column);
  }
}

/// Multiplies by fp32 FMAs, with the values of Bf16Dot.
template <class F>
void linear_by_fma(const LinearTask& task) {
  linear<ByFma<F>>(with_wide_rows<Bf16ByFmaDot>(task));
}

}  // namespace

/// Multiplies by fp32 FMAs what linear_bf16_pairs would compute more slowly. Few rows take the time of reading the
/// weights, and linear_bf16_pairs does not fill up half a panel.
void linear_bf16_by_fma(const LinearTask& task) {
  constexpr std::int64_t kFewRows = 4;
  if (task.rows <= kFewRows || task.out - task.first_panel * kPanel <= kPanel / 2) linear_bf16_pairs(task);
  else linear_by_fma<Bf16>(task);
}
void linear_fp8_by_fma(const LinearTask& task) { linear_by_fma<Fp8>(task); }
void linear_fp8_block_by_fma(const LinearTask& task) { linear_by_fma<Fp8Block>(task); }
void linear_int4_by_fma(const LinearTask& task) { linear_by_fma<Int4>(task); }
#if defined(QRL_ISA_AVX512)
void linear_fp8(const LinearTask& task) { linear<Fp8>(task); }
void linear_fp8_block(const LinearTask& task) { linear<Fp8Block>(task); }
void linear_int4(const LinearTask& task) { linear<Int4>(task); }
#endif
void linear_int4_int8(const LinearTask& task) { linear<Int4Int8>(with_wide_rows<Int4Int8>(task)); }

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
