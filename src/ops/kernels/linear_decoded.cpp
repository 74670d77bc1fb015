// The matrix products with weights narrower than what the dot product takes: e4m3 and int4. A few rows decode them in
// registers, since the weights' way from memory is what counts; many rows decode a chunk of a panel once, to the first
// cache, for all of them. Both add in one order: along the inputs, each accumulator under one weight scale at a time.
#include "ops/kernels/linear.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

namespace {

constexpr std::int64_t kChunkInputs = 128;  // divides what shares a scale, or that is all inputs
constexpr std::int64_t kRowsAtOnce = 48;    // whose sums lie in the first cache

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
  typename F::Accumulator open = {};
  VecF scaled = {};
};

/// A run of inputs: [begin, end), its place among the scales.
struct Chunk {
  std::int64_t begin, end, run;
  bool first, last;  ///< under its scale
};

template <class F>
Chunk chunk_at(const LinearTask& task, std::int64_t begin) {
  const std::int64_t end = begin + kChunkInputs < task.in ? begin + kChunkInputs : task.in;
  if (F::kScaledChunks) return {begin, end, begin / kChunkInputs, true, true};
  return {begin, end, 0, begin == 0, end == task.in};
}

/// Words of the chunk's first stored word on, of the panel that holds `column`.
template <class F>
const std::int32_t* stored_words(const LinearTask& task, const Chunk& chunk, std::int64_t column) {
  const std::int64_t words = (task.in + F::Codes::kInputs - 1) / F::Codes::kInputs;
  return static_cast<const std::int32_t*>(task.panels) +
         (column / kPanel * words + chunk.begin / F::Codes::kInputs) * kPanel + column % kPanel;
}

/// Adds a chunk to the sums of Rows rows × Vectors vectors. weights(word, step, vector, to) gives decoded words from
/// `step` on.
template <class F, int Rows, int Vectors, class Weights>
inline void add_chunk(const LinearTask& task, std::int64_t row, std::int64_t column, const Chunk& chunk,
                      const Weights& weights, Sums<F> (*sums)[Vectors]) {
  using Element = typename F::Element;
  typename F::Accumulator open[Rows][Vectors];
  for (int v = 0; v < Vectors; ++v) {
    const typename F::Accumulator fresh = F::start(task, chunk.run, column + v * kLanes);
    for (int r = 0; r < Rows; ++r) open[r][v] = chunk.first ? fresh : sums[r][v].open;
  }
  const auto* x = static_cast<const Element*>(task.x) + row * task.x_stride + chunk.begin;
  const std::int64_t words = (chunk.end - chunk.begin + F::Codes::kInputs - 1) / F::Codes::kInputs;
  for (std::int64_t word = 0; word < words; ++word) {
    for (int step = 0; step < F::Codes::kSteps; step += F::Codes::kAtOnce) {
      VecI words_of[Vectors][F::Codes::kAtOnce];
      for (int v = 0; v < Vectors; ++v) weights(word, step, v, words_of[v]);
      for (int i = 0; i < F::Codes::kAtOnce; ++i, x += F::kGroup) {
        for (int r = 0; r < Rows; ++r) {
          const typename F::Input input = F::input(x + r * task.x_stride);
          for (int v = 0; v < Vectors; ++v) open[r][v] = F::dot(open[r][v], input, F::weights(words_of[v][i]));
        }
      }
    }
  }
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
      sums[r][v].scaled = fma(F::number(open[r][v]), scale, sums[r][v].scaled);
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

/// Few rows: decoded in registers.
template <class F, int Rows, int Vectors>
void decoded_in_registers(const LinearTask& task, std::int64_t row, std::int64_t column) {
  Sums<F> sums[Rows][Vectors];
  for (std::int64_t begin = 0; begin < task.in; begin += kChunkInputs) {
    const Chunk chunk = chunk_at<F>(task, begin);
    const std::int32_t* stored = stored_words<F>(task, chunk, column);
    const auto weights = [stored](std::int64_t word, int step, int v, VecI(&to)[F::Codes::kAtOnce]) {
      F::Codes::decode(load_words(stored + word * kPanel + v * kLanes), step, to);
    };
    add_chunk<F, Rows, Vectors>(task, row, column, chunk, weights, sums);
  }
  for (int r = 0; r < Rows; ++r) finish<F, Vectors>(task, row + r, column, sums[r]);
}

/// Rows × Vectors tiles over up to Rows rows.
template <class F, int Rows, class Body>
void with_rows(std::int64_t rows, const Body& body) {
  if constexpr (Rows > 0) {
    if (rows == Rows) body.template operator()<Rows>();
    else with_rows<F, Rows - 1>(rows, body);
  }
}

/// Many rows: each chunk of a panel decoded once.
template <class F>
void decoded_in_cache(const LinearTask& task, std::int64_t first_row, std::int64_t rows, std::int64_t column) {
  constexpr int kMostWords = kChunkInputs / F::kGroup;
  alignas(64) std::int32_t words[kMostWords][kPanel];
  Sums<F> sums[kPanel / kLanes / kTileVectors][kRowsAtOnce][kTileVectors];
  for (std::int64_t begin = 0; begin < task.in; begin += kChunkInputs) {
    const Chunk chunk = chunk_at<F>(task, begin);
    const std::int32_t* stored = stored_words<F>(task, chunk, column);
    const std::int64_t num_stored = (chunk.end - chunk.begin + F::Codes::kInputs - 1) / F::Codes::kInputs;
    for (std::int64_t word = 0; word < num_stored; ++word) {
      for (int v = 0; v < kPanel / kLanes; ++v) {
        const VecI together = load_words(stored + word * kPanel + v * kLanes);
        for (int step = 0; step < F::Codes::kSteps; step += F::Codes::kAtOnce) {
          VecI decoded[F::Codes::kAtOnce];
          F::Codes::decode(together, step, decoded);
          for (int i = 0; i < F::Codes::kAtOnce; ++i)
            __builtin_memcpy(words[word * F::Codes::kSteps + step + i] + v * kLanes, &decoded[i], sizeof decoded[i]);
        }
      }
    }
    for (int tile = 0; tile < kPanel / kLanes / kTileVectors; ++tile) {
      const int offset = tile * kTileVectors * kLanes;
      if (column + offset >= task.out) break;
      const auto weights = [&words, offset](std::int64_t word, int step, int v, VecI(&to)[F::Codes::kAtOnce]) {
        for (int i = 0; i < F::Codes::kAtOnce; ++i)
          to[i] = load_words(words[word * F::Codes::kSteps + step + i] + offset + v * kLanes);
      };
      for (std::int64_t r = 0; r < rows; r += kTileRows) {
        with_rows<F, kTileRows>(rows - r < kTileRows ? rows - r : kTileRows, [&]<int Rows>() {
          add_chunk<F, Rows, kTileVectors>(task, first_row + r, column + offset, chunk, weights, sums[tile] + r);
        });
      }
    }
  }
  for (int tile = 0; tile < kPanel / kLanes / kTileVectors; ++tile) {
    const int offset = tile * kTileVectors * kLanes;
    for (std::int64_t r = 0; r < rows; ++r)
      finish<F, kTileVectors>(task, first_row + r, column + offset, sums[tile][r]);
  }
}

template <class F>
void linear(const LinearTask& task) {
  const std::int64_t end = task.end_panel * kPanel < task.out ? task.end_panel * kPanel : task.out;
  if (task.rows <= kTileRows) {
    constexpr int kSingleRowColumns = kSingleRowVectors * kLanes, kTileColumns = kTileVectors * kLanes;
    for (std::int64_t column = task.first_panel * kPanel; column < end;
         column += task.rows == 1 ? kSingleRowColumns : kTileColumns) {
      if (task.rows == 1) decoded_in_registers<F, 1, kSingleRowVectors>(task, 0, column);
      else
        with_rows<F, kTileRows>(task.rows,
                                [&]<int Rows>() { decoded_in_registers<F, Rows, kTileVectors>(task, 0, column); });
    }
    return;
  }
  for (std::int64_t first = 0; first < task.rows; first += kRowsAtOnce) {
    const std::int64_t rows = task.rows - first < kRowsAtOnce ? task.rows - first : kRowsAtOnce;
    for (std::int64_t column = task.first_panel * kPanel; column < end; column += kPanel)
      decoded_in_cache<F>(task, first, rows, column);
  }
}

}  // namespace

void linear_fp8(const LinearTask& task) { linear<Fp8>(task); }
void linear_fp8_block(const LinearTask& task) { linear<Fp8Block>(task); }
void linear_int4(const LinearTask& task) { linear<Int4>(task); }
void linear_int4_int8(const LinearTask& task) { linear<Int4Int8>(task); }

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
