// The matrix products with weights narrower than what the dot product takes: e4m3 and int4. A few rows decode them in
// registers, since the weights' way from memory is what counts; many rows decode a panel once, to the second cache, for
// all of them, and meanwhile ask for the next one. Both add in one order: along the inputs, each accumulator under one
// weight scale at a time.
#include "ops/kernels/linear.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

namespace {

constexpr std::int64_t kScaleInputs = 128;  // of the formats whose scales belong to some of the inputs
constexpr int kAskedLines = 2;              // a stored word's turn: half of its own panel row of kPanel words

// Codes: how many inputs a stored word holds, and the kSteps words of the dot product's own layout that come out of it,
// kAtOnce of them at a time.

struct Fp8Codes {
  static constexpr int kInputs = 4, kSteps = 2, kAtOnce = 2;
  static void decode(VecI word, int, VecI (&to)[2]) { bf16_of_fp8(word, to); }
};

struct Int4AsBf16Codes {
  static constexpr int kInputs = 8, kSteps = 4, kAtOnce = 1;
  static void decode(VecI word, int step, VecI (&to)[1]) {
#if defined(QRL_ISA_AVX512)
    // Five bits of the index count; the fifth belongs to the next nibble, so the table holds everything twice.
    alignas(64) static constexpr std::uint16_t kNumbers[32] = {
        0,      0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0, 0xc100, 0xc0e0, 0xc0c0,
        0xc0a0, 0xc080, 0xc040, 0xc000, 0xbf80, 0,      0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0,
        0x40c0, 0x40e0, 0xc100, 0xc0e0, 0xc0c0, 0xc0a0, 0xc080, 0xc040, 0xc000, 0xbf80};
    to[0] = (VecI)_mm512_permutexvar_epi16((__m512i)((VecU16)word >> (4 * step)), _mm512_load_si512(kNumbers));
#else
    const auto number = [](VecU shifted) { return bits_of(__builtin_convertvector((VecI)shifted >> 28, VecF)); };
    const VecI even = number((VecU)word << (28 - 4 * step)), odd = number((VecU)word << (12 - 4 * step));
    to[0] = (VecI)((VecU)even >> 16) | (odd & (VecI)(VecU{} + 0xffff0000U));
#endif
  }
};

struct Int4AsInt8Codes {
  static constexpr int kInputs = 8, kSteps = 2, kAtOnce = 1;
  static void decode(VecI word, int step, VecI (&to)[1]) {
    using Bytes = std::int8_t __attribute__((vector_size(4 * kLanes)));
    const VecI nibbles = (VecI)((VecU)word >> (4 * step)) & 0x0f0f0f0f;
    to[0] = (VecI)(((Bytes)nibbles ^ 8) - 8);
  }
};

// Formats: codes, dot product, and the scales' places.

enum class InputScale { row, chunk };

struct Fp8 : Bf16Dot {
  using Codes = Fp8Codes;
  static constexpr bool kScaledChunks = false;
  static constexpr InputScale kInputScale = InputScale::row;
  static VecF weight_scale(const LinearTask& task, std::int64_t run, std::int64_t column) {
    return load(static_cast<const float*>(task.scales) + run * task.scale_stride + column, All{});
  }
  static VecF start(const LinearTask&, std::int64_t, std::int64_t) { return VecF{}; }
  static VecF number(VecF sum) { return sum; }
};

struct Fp8Block : Fp8 {
  static constexpr bool kScaledChunks = true;
  static constexpr InputScale kInputScale = InputScale::chunk;
};

struct Int4 : Bf16Dot {
  using Codes = Int4AsBf16Codes;
  static constexpr bool kScaledChunks = true;
  static constexpr InputScale kInputScale = InputScale::row;
  static VecF weight_scale(const LinearTask& task, std::int64_t run, std::int64_t column) {
    return load(static_cast<const std::uint16_t*>(task.scales) + run * task.scale_stride + column, All{});
  }
  static VecF start(const LinearTask&, std::int64_t, std::int64_t) { return VecF{}; }
  static VecF number(VecF sum) { return sum; }
};

struct Int4Int8 : Int8DotOffsetInput {
  using Codes = Int4AsInt8Codes;
  static constexpr bool kScaledChunks = true;
  static constexpr InputScale kInputScale = InputScale::row;
  static VecF weight_scale(const LinearTask& task, std::int64_t run, std::int64_t column) {
    return Int4::weight_scale(task, run, column);
  }
  static VecI start(const LinearTask& task, std::int64_t run, std::int64_t column) {
    return kBias == 0 ? VecI{} : (VecI)(-(VecU)load_words(task.column_sums + run * task.scale_stride + column));
  }
  static VecF number(VecI sum) { return __builtin_convertvector(sum, VecF); }
};

/// Sums of one row and vector: under the present scale, and of what is scaled.
template <class F>
struct Sums {
  typename F::Accumulator open;
  VecF scaled;
};

/// A run of inputs, its place among the scales, and whether it is the first and the last under its own.
struct Chunk {
  std::int64_t begin, end, run;
  bool first, last;
};

/// Calls body(chunk) for all of [begin, end), which is whole scales' or, where a row has one scale, any.
template <class F, class Body>
inline void for_chunks(const LinearTask& task, std::int64_t begin, std::int64_t end, const Body& body) {
  if constexpr (F::kScaledChunks) {
    for (; begin < end; begin += kScaleInputs)
      body({begin, begin + kScaleInputs < end ? begin + kScaleInputs : end, begin / kScaleInputs, true, true});
  } else {
    body(Chunk{begin, end, 0, begin == 0, end == task.in});
  }
}

constexpr std::int64_t words_of(std::int64_t inputs, int of_word) { return (inputs + of_word - 1) / of_word; }

/// Adds a chunk to the sums of Rows rows × Vectors vectors, whatever those are before the first one. weights(word,
/// step, vector, to) gives decoded words from `step` on of the chunk's stored `word`; `ask` is called once for each of
/// those.
template <class F, int Rows, int Vectors, class Weights, class Ask>
inline void add_chunk(const LinearTask& task, std::int64_t row, std::int64_t column, const Chunk& chunk,
                      const Weights& weights, const Ask& ask, Sums<F> (*sums)[Vectors]) {
  using Element = typename F::Element;
  typename F::Accumulator open[Rows][Vectors];
  for (int v = 0; v < Vectors; ++v) {
    const typename F::Accumulator fresh = F::start(task, chunk.run, column + v * kLanes);
    for (int r = 0; r < Rows; ++r) open[r][v] = chunk.first ? fresh : sums[r][v].open;
  }
  const auto* x = static_cast<const Element*>(task.x) + row * task.x_stride + chunk.begin;
  const std::int64_t words = words_of(chunk.end - chunk.begin, F::Codes::kInputs);
  for (std::int64_t word = 0; word < words; ++word) {
    ask();
    for (int step = 0; step < F::Codes::kSteps; step += F::Codes::kAtOnce) {
      VecI decoded[Vectors][F::Codes::kAtOnce];
      for (int v = 0; v < Vectors; ++v) weights(word, step, v, decoded[v]);
      for (int i = 0; i < F::Codes::kAtOnce; ++i, x += F::kGroup) {
        for (int r = 0; r < Rows; ++r) {
          const typename F::Input input = F::input(x + r * task.x_stride);
          for (int v = 0; v < Vectors; ++v) open[r][v] = F::dot(open[r][v], input, F::weights(decoded[v][i]));
        }
      }
    }
  }
  const bool nothing_scaled = !F::kScaledChunks || chunk.begin == 0;
  for (int v = 0; v < Vectors; ++v) {
    const VecF weight_scale = F::weight_scale(task, chunk.run, column + v * kLanes);
    for (int r = 0; r < Rows; ++r) {
      if (!chunk.last) {
        sums[r][v].open = open[r][v];
        continue;
      }
      VecF scale = weight_scale;
      if (F::kInputScale == InputScale::chunk)
        scale = splat(task.x_scales[(row + r) * task.x_scale_stride + chunk.run]) * scale;
      sums[r][v].scaled = fma(F::number(open[r][v]), scale, nothing_scaled ? VecF{} : sums[r][v].scaled);
    }
  }
}

template <class F, int Vectors>
inline void finish(const LinearTask& task, std::int64_t row, std::int64_t column, const Sums<F>* sums) {
  for (int v = 0; v < Vectors; ++v) {
    VecF value = sums[v].scaled;
    if (F::kInputScale == InputScale::row && task.x_scales != nullptr)
      value = value * splat(task.x_scales[row * task.x_scale_stride]);
    write(task, value, row, column + v * kLanes);
  }
}

/// The stored words of a panel.
template <class F>
const std::int32_t* panel_at(const LinearTask& task, std::int64_t column) {
  return static_cast<const std::int32_t*>(task.panels) +
         column / kPanel * kPanel * words_of(task.in, F::Codes::kInputs);
}

/// Few rows: decoded in registers.
template <class F, int Rows, int Vectors>
void decoded_in_registers(const LinearTask& task, std::int64_t column) {
  Sums<F> sums[Rows][Vectors];
  const std::int32_t* panel = panel_at<F>(task, column) + column % kPanel;
  for_chunks<F>(task, 0, task.in, [&](const Chunk& chunk) {
    const std::int32_t* stored = panel + chunk.begin / F::Codes::kInputs * kPanel;
    const auto weights = [stored](std::int64_t word, int step, int v, VecI(&to)[F::Codes::kAtOnce]) {
      F::Codes::decode(load_words(stored + word * kPanel + v * kLanes), step, to);
    };
    add_chunk<F, Rows, Vectors>(
        task, 0, column, chunk, weights, [] {}, sums);
  });
  for (int r = 0; r < Rows; ++r) finish<F, Vectors>(task, r, column, sums[r]);
}

/// Stored words to those of the dot product, both by whole panel rows.
template <class F>
void decode(const std::int32_t* stored, std::int64_t num_stored, std::int32_t* words) {
  for (std::int64_t word = 0; word < num_stored; ++word, stored += kPanel) {
    for (int v = 0; v < kPanel / kLanes; ++v) {
      const VecI together = load_words(stored + v * kLanes);
      for (int step = 0; step < F::Codes::kSteps; step += F::Codes::kAtOnce) {
        VecI decoded[F::Codes::kAtOnce];
        F::Codes::decode(together, step, decoded);
        for (int i = 0; i < F::Codes::kAtOnce; ++i)
          __builtin_memcpy(words + (step + i) * kPanel + v * kLanes, &decoded[i], sizeof decoded[i]);
      }
    }
    words += F::Codes::kSteps * kPanel;
  }
}

/// Many rows: each panel decoded once, a stretch of inputs at a time.
template <class F>
void decoded_in_cache(const LinearTask& task, std::int64_t column) {
  using TileSums = Sums<F>[kTileVectors];
  constexpr std::int64_t kTileColumns = kTileVectors * kLanes, kAskers = 2;
  const std::int64_t num_stored = words_of(task.in, F::Codes::kInputs);
  const std::int32_t* panel = panel_at<F>(task, column);
  auto* words = reinterpret_cast<std::int32_t*>(task.scratch);
  auto* sums = reinterpret_cast<TileSums*>(words + kLinearScratchInputs / F::kGroup * kPanel);
  for (std::int64_t begin = 0; begin < task.in; begin += kLinearScratchInputs) {
    const std::int64_t end = begin + kLinearScratchInputs < task.in ? begin + kLinearScratchInputs : task.in;
    const std::int64_t first = begin / F::Codes::kInputs, count = words_of(end - begin, F::Codes::kInputs);
    decode<F>(panel + first * kPanel, count, words);
    // The same stretch of the next panel, in two halves of the lines.
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
          const auto weights = [from](std::int64_t word, int step, int v, VecI(&to)[F::Codes::kAtOnce]) {
            for (int i = 0; i < F::Codes::kAtOnce; ++i)
              to[i] = load_words(from + (word * F::Codes::kSteps + step + i) * kPanel + v * kLanes);
          };
          add_chunk<F, Rows, kTileVectors>(task, row, column + offset, chunk, weights, ask, of_tile);
        });
        if (end < task.in) return;
        for (int r = 0; r < Rows; ++r) finish<F, kTileVectors>(task, row + r, column + offset, of_tile[r]);
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
      decoded_in_registers<F, 1, kSingleRowVectors>(task, column);
  } else if (task.rows <= kTileRows) {
    with_rows<kTileRows>(task.rows, 0, [&]<int Rows>(std::int64_t) {
      for (std::int64_t column = begin; column < end; column += kTileVectors * kLanes)
        decoded_in_registers<F, Rows, kTileVectors>(task, column);
    });
  } else {
    for (std::int64_t column = begin; column < end; column += kPanel) decoded_in_cache<F>(task, column);
  }
}

}  // namespace

void linear_fp8(const LinearTask& task) { linear<Fp8>(task); }
void linear_fp8_block(const LinearTask& task) { linear<Fp8Block>(task); }
void linear_int4(const LinearTask& task) { linear<Int4>(task); }
void linear_int4_int8(const LinearTask& task) { linear<Int4Int8>(task); }

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
