// The matrix products: rows of encoded activations times packed panels. A tile of kTileRows rows by kTileVectors
// vectors of columns is held in registers while the whole input width streams by. Each output has its own accumulator
// and one order of additions, so its bits do not depend on which rows share its tile.
#include "ops/kernels/kernels.h"
#include "ops/kernels/simd.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

namespace {

constexpr int kPanel = 64;  // ops::kPanelColumns

#if defined(QRL_ISA_AVX512)
constexpr int kTileRows = 6, kTileVectors = 4;  // 24 of 32 registers accumulate
constexpr int kSingleRowVectors = 4;
#else
constexpr int kTileRows = 4, kTileVectors = 2;  // 8 of 16
constexpr int kSingleRowVectors = 8;            // the same 8, and longer runs of the panels, which come from memory
#endif

std::int32_t load_word(const void* from) {
  std::int32_t word;
  __builtin_memcpy(&word, from, sizeof word);
  return word;
}

VecI load_words(const void* from) {
  VecI words;
  __builtin_memcpy(&words, from, sizeof words);
  return words;
}

// A format says how kGroup neighbouring inputs of one row (Input), of one vector of columns (Weights), meet in an
// accumulator, and what becomes of it at the end.

struct F32 {
  using Element = float;
  static constexpr int kGroup = 1;
  using Accumulator = VecF;
  using Input = VecF;
  using Weights = VecF;
  static Input input(const float* x) { return splat(*x); }
  static Weights weights(const float* w) { return load(w, All{}); }
  static VecF dot(VecF sum, Input x, Weights w) { return fma(x, w, sum); }
  static VecF start(const LinearTask&, std::int64_t) { return VecF{}; }
  static VecF finish(const LinearTask&, VecF sum, std::int64_t, std::int64_t) { return sum; }
};

struct Bf16 {
  using Element = std::uint16_t;
  static constexpr int kGroup = 2;
  using Accumulator = VecF;
#if defined(QRL_ISA_AVX512)
  // vdpbf16ps adds the odd product, then the even one, each like an fma; it takes and gives subnormals as zero.
  using Input = __m512bh;
  using Weights = __m512bh;
  static Input input(const std::uint16_t* x) { return (__m512bh)splat(load_word(x)); }
  static Weights weights(const std::uint16_t* w) { return (__m512bh)load_words(w); }
  static VecF dot(VecF sum, Input x, Weights w) { return _mm512_dpbf16_ps(sum, x, w); }
#else
  // The same order in fp32; the products of bf16 are exact, so fused or not makes no difference.
  struct Pair {
    VecF even, odd;
  };
  using Input = Pair;
  using Weights = Pair;
  static Pair split(VecI words) { return {float_of_bits(words << 16), float_of_bits(words & ~0xffff)}; }
  static Input input(const std::uint16_t* x) { return split(splat(load_word(x))); }
  static Weights weights(const std::uint16_t* w) { return split(load_words(w)); }
  static VecF dot(VecF sum, Input x, Weights w) { return fma(x.even, w.even, fma(x.odd, w.odd, sum)); }
#endif
  static VecF start(const LinearTask&, std::int64_t) { return VecF{}; }
  static VecF finish(const LinearTask&, VecF sum, std::int64_t, std::int64_t) { return sum; }
};

struct Int8 {
  using Element = std::int8_t;
  static constexpr int kGroup = 4;
  using Accumulator = VecI;
#if defined(QRL_ISA_AVX512)
  // vpdpbusd multiplies u8 by s8: the activations go in as x + 128, and the sums start at −128·Σ codes.
  using Input = VecI;
  using Weights = VecI;
  static Input input(const std::int8_t* x) {
    return splat(load_word(x)) ^ splat(static_cast<std::int32_t>(0x80808080));
  }
  static Weights weights(const std::int8_t* w) { return load_words(w); }
  static VecI dot(VecI sum, Input x, Weights w) {
    return (VecI)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)x, (__m512i)w);
  }
  static VecI start(const LinearTask& task, std::int64_t column) {
    return (VecI)(-(VecU)load_words(task.column_sums + column));
  }
#else
  // Even and odd bytes sign-extended in place to 16 bits. Codes never reach −128, so that |even·even + odd·odd| ≤
  // 2·127² fits 16 bits, too.
  struct Pair {
    VecI16 even, odd;
  };
  using Input = Pair;
  using Weights = Pair;
  static Pair split(VecI words) { return {((VecI16)words << 8) >> 8, (VecI16)words >> 8}; }
  static Input input(const std::int8_t* x) { return split(splat(load_word(x))); }
  static Weights weights(const std::int8_t* w) { return split(load_words(w)); }
  static VecI dot(VecI sum, Input x, Weights w) {
#if defined(QRL_ISA_AVX2)
    return sum + (VecI)_mm256_madd_epi16((__m256i)x.even, (__m256i)w.even) +
           (VecI)_mm256_madd_epi16((__m256i)x.odd, (__m256i)w.odd);
#else
    const VecI pairs = (VecI)(x.even * w.even + x.odd * w.odd);
    return sum + ((pairs << 16) >> 16) + (pairs >> 16);
#endif
  }
  static VecI start(const LinearTask&, std::int64_t) { return VecI{}; }
#endif
  static VecF finish(const LinearTask& task, VecI sum, std::int64_t row, std::int64_t column) {
    return __builtin_convertvector(sum, VecF) * (splat(task.x_scales[row]) * load(task.scales + column, All{}));
  }
};

template <class Lanes>
void write(const LinearTask& task, VecF value, std::int64_t row, std::int64_t column, Lanes lanes) {
  if (task.bias != nullptr) value = value + load(task.bias + column, lanes);
  float* y = task.y + row * task.out + column;
  if (task.accumulate) value = load(y, lanes) + value;
  store(y, value, lanes);
}

/// Rows `row` … `row` + Rows − 1, columns `column` … `column` + Vectors·kLanes − 1.
template <class Format, int Rows, int Vectors>
void tile(const LinearTask& task, std::int64_t row, std::int64_t column) {
  using Element = typename Format::Element;
  constexpr int kGroup = Format::kGroup;
  const std::int64_t groups = (task.in + kGroup - 1) / kGroup;
  const auto* x = static_cast<const Element*>(task.x) + row * task.x_stride;
  const auto* w = static_cast<const Element*>(task.panels) + (column / kPanel) * kPanel * groups * kGroup +
                  (column % kPanel) * kGroup;
  typename Format::Accumulator sums[Rows][Vectors];
  for (int r = 0; r < Rows; ++r) {
    for (int v = 0; v < Vectors; ++v) sums[r][v] = Format::start(task, column + v * kLanes);
  }
  for (std::int64_t group = 0; group < groups; ++group, w += kPanel * kGroup, x += kGroup) {
    typename Format::Weights weights[Vectors];
    for (int v = 0; v < Vectors; ++v) weights[v] = Format::weights(w + v * kLanes * kGroup);
    for (int r = 0; r < Rows; ++r) {
      const typename Format::Input input = Format::input(x + r * task.x_stride);
      for (int v = 0; v < Vectors; ++v) sums[r][v] = Format::dot(sums[r][v], input, weights[v]);
    }
  }
  for (int r = 0; r < Rows; ++r) {
    for (int v = 0; v < Vectors; ++v) {
      const std::int64_t at = column + v * kLanes;
      const VecF value = Format::finish(task, sums[r][v], row + r, at);
      if (at + kLanes <= task.out) {
        write(task, value, row + r, at, All{});
      } else if (at < task.out) {
        write(task, value, row + r, at, First{static_cast<int>(task.out - at)});
      }
    }
  }
}

/// The last rows, fewer than a tile's.
template <class Format, int Rows>
void last_tile(const LinearTask& task, std::int64_t rows, std::int64_t row, std::int64_t column) {
  if constexpr (Rows > 0) {
    if (rows == Rows) tile<Format, Rows, kTileVectors>(task, row, column);
    else last_tile<Format, Rows - 1>(task, rows, row, column);
  }
}

template <class Format>
void linear(const LinearTask& task) {
  constexpr int kTileColumns = kTileVectors * kLanes, kSingleRowColumns = kSingleRowVectors * kLanes;
  const std::int64_t end = task.end_panel * kPanel < task.out ? task.end_panel * kPanel : task.out;
  const std::int64_t begin = task.first_panel * kPanel;
  if (task.rows == 1) {
    for (std::int64_t column = begin; column < end; column += kSingleRowColumns) {
      tile<Format, 1, kSingleRowVectors>(task, 0, column);
    }
    return;
  }
  for (std::int64_t column = begin; column < end; column += kTileColumns) {
    std::int64_t row = 0;
    for (; row + kTileRows <= task.rows; row += kTileRows) tile<Format, kTileRows, kTileVectors>(task, row, column);
    last_tile<Format, kTileRows - 1>(task, task.rows - row, row, column);
  }
}

}  // namespace

void linear_f32(const LinearTask& task) { linear<F32>(task); }
void linear_bf16(const LinearTask& task) { linear<Bf16>(task); }
void linear_int8(const LinearTask& task) { linear<Int8>(task); }

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
