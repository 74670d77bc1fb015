#pragma once

#include "ops/kernels/dot.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

#if defined(QRL_ISA_AMX)
inline constexpr std::int64_t kSmallMultiple = 32;  // covers two tiles of columns, or one tile step of inputs
#else
inline constexpr std::int64_t kSmallMultiple = kLanes;
#endif

constexpr std::int64_t padded(std::int64_t count) {
  return (count + kSmallMultiple - 1) / kSmallMultiple * kSmallMultiple;
}

/// The left operand: row r's word k is at data[r · row_stride + k · step]. A word is one fp32 number, or two bf16
/// adjacent along the depth.
template <class Dot>
struct Left {
  const typename Dot::Element* data;
  std::int64_t row_stride, step;
};

/// The right operand: words [groups][stride].
template <class Dot>
struct Right {
  const typename Dot::Element* data;
  std::int64_t stride;
};

template <class Dot>
constexpr std::int64_t elements(std::int64_t words) {
  return words * Dot::kGroup;
}

/// Computes attention's small matmuls between blocks of rows. Depths are padded to multiples of kDepth, with zeros in
/// one operand and finite numbers in the other. Rows are padded to multiples of kRows; the padding's results are
/// undefined.
template <class Dot>
class SmallMatmuls {
 public:
  static constexpr std::int64_t kDepth = Dot::kGroup, kRows = 1;

  /// Computes C (+)= A·B over `depth` numbers in order. C is [rows, columns], with `columns` a multiple of
  /// kSmallMultiple.
  void multiply(Left<Dot> a, Right<Dot> b, std::int64_t rows, std::int64_t columns, std::int64_t depth, bool accumulate,
                float* c, std::int64_t c_stride) const {
    const std::int64_t groups = (depth + Dot::kGroup - 1) / Dot::kGroup;
    const auto from = [&](std::int64_t column) { return Right<Dot>{b.data + column * Dot::kGroup, b.stride}; };
    std::int64_t column = 0;
    for (; column + kTileVectors * kLanes <= columns; column += kTileVectors * kLanes)
      multiply_columns<kTileVectors>(a, from(column), rows, groups, accumulate, c + column, c_stride);
    for (; column + 2 * kLanes <= columns; column += 2 * kLanes)
      multiply_columns<2>(a, from(column), rows, groups, accumulate, c + column, c_stride);
    for (; column < columns; column += kLanes)
      multiply_columns<1>(a, from(column), rows, groups, accumulate, c + column, c_stride);
  }

  /// Returns words [groups][wide] as a left operand with `wide` rows.
  Left<Dot> turned(const typename Dot::Element* words, std::int64_t wide, std::int64_t /*depth*/,
                   typename Dot::Element* /*memory*/) const {
    return {words, Dot::kGroup, elements<Dot>(wide)};
  }
  static constexpr std::int64_t turned_size(std::int64_t /*wide*/, std::int64_t /*most_depth*/) { return 0; }

 private:
#if defined(QRL_ISA_AVX512)
  static constexpr int kTileRows = 6, kTileVectors = 4;  // registers: 24 sums, 4 of B, 1 broadcast: 29 of 32
#elif defined(QRL_ISA_AVX2)
  static constexpr int kTileRows = 6, kTileVectors = 2;  // registers: 12 sums, 2 of B, 1 broadcast: 15 of 16
#else
  static constexpr int kTileRows = 4, kTileVectors = 2;
#endif

  template <int kTile, int kVectors>
  [[gnu::always_inline]] static void multiply_tile(Left<Dot> a, Right<Dot> b, std::int64_t groups, bool accumulate,
                                                   float* c, std::int64_t c_stride) {
    constexpr int kGroup = Dot::kGroup;
    VecF sums[kTile][kVectors];
    for (int r = 0; r < kTile; ++r) {
      for (int v = 0; v < kVectors; ++v) sums[r][v] = accumulate ? load(c + r * c_stride + v * kLanes, All{}) : VecF{};
    }
    for (std::int64_t k = 0; k < groups; ++k) {
      typename Dot::Weights row[kVectors];
      for (int v = 0; v < kVectors; ++v) row[v] = Dot::weights(b.data + (k * b.stride + v * kLanes) * kGroup);
      for (int r = 0; r < kTile; ++r) {
        const typename Dot::Input left = Dot::input(a.data + r * a.row_stride + k * a.step);
        for (int v = 0; v < kVectors; ++v) sums[r][v] = Dot::dot(sums[r][v], left, row[v]);
      }
    }
    for (int r = 0; r < kTile; ++r) {
      for (int v = 0; v < kVectors; ++v) store(c + r * c_stride + v * kLanes, sums[r][v], All{});
    }
  }

  template <int kVectors, int kTile = kTileRows>
  static void multiply_columns(Left<Dot> a, Right<Dot> b, std::int64_t rows, std::int64_t groups, bool accumulate,
                               float* c, std::int64_t c_stride) {
    std::int64_t r = 0;
    for (; r + kTile <= rows; r += kTile) {
      multiply_tile<kTile, kVectors>({a.data + r * a.row_stride, a.row_stride, a.step}, b, groups, accumulate,
                                     c + r * c_stride, c_stride);
    }
    if constexpr (kTile > 1) {
      if (r < rows) {
        multiply_columns<kVectors, kTile - 1>({a.data + r * a.row_stride, a.row_stride, a.step}, b, rows - r, groups,
                                              accumulate, c + r * c_stride, c_stride);
      }
    }
  }
};

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
