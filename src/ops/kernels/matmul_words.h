// Owns the conversion of matmul operands to 32-bit words, and the writing of sums. Operands are rounded and
// zero-padded. A word is two bf16 adjacent along the depth, or one fp32.
#pragma once

#include "ops/kernels/dot.h"
#include "ops/kernels/matmul.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

inline constexpr int kPanelVectors = kMatmulPanel / kLanes;

/// Converts elements of type T to kLanes words: `along` from one row along the depth, `across` from two rows adjacent
/// in the depth.
template <class Dot, class T>
struct Words;

template <>
struct Words<Bf16Dot, std::uint16_t> {
  static VecI along(const std::uint16_t* row) { return load_words(row); }
  static VecI across(const std::uint16_t* even, const std::uint16_t* odd) {
    return widened(even) | (widened(odd) << 16);
  }
  static VecI widened(const std::uint16_t* from) {
    return __builtin_convertvector(load_vector<HalfU16>(from, All{}), VecI);
  }
};

template <>
struct Words<Bf16Dot, float> {
  static VecI pair(VecF even, VecF odd) {
    return (VecI)((VecU)bits_of(rounded_to_bf16(even)) >> 16) | bits_of(rounded_to_bf16(odd));
  }
  static VecI along(const float* row) {
    const VecF low = load(row, All{}), high = load(row + kLanes, All{});
    return pair(__builtin_shuffle(low, high, 2 * kLaneIndex), __builtin_shuffle(low, high, 2 * kLaneIndex + 1));
  }
  static VecI across(const float* even, const float* odd) { return pair(load(even, All{}), load(odd, All{})); }
};

template <>
struct Words<F32Dot, float> {
  static VecI along(const float* row) { return load_words(row); }
  static VecI across(const float* row, const float*) { return load_words(row); }
};

template <>
struct Words<F32Dot, std::uint16_t> {
  static VecI along(const std::uint16_t* row) { return bits_of(load(row, All{})); }
  static VecI across(const std::uint16_t* row, const std::uint16_t*) { return along(row); }
};

template <>
struct Words<Bf16ByFmaDot, std::uint16_t> {
  static VecI along(const std::uint16_t* row) { return __builtin_shuffle(across(row, row), kLaneIndex ^ 1); }
  static VecI across(const std::uint16_t* row, const std::uint16_t*) { return bits_of(load(row, All{})); }
};

template <>
struct Words<Bf16ByFmaDot, float> {
  static VecI along(const float* row) { return __builtin_shuffle(across(row, row), kLaneIndex ^ 1); }
  static VecI across(const float* row, const float*) { return bits_of(rounded_to_bf16(load(row, All{}))); }
};

/// Returns the number of words along a depth. Words of Bf16ByFmaDot come in pairs.
template <class Dot>
constexpr std::int64_t groups_of(std::int64_t depth) {
  constexpr int kMultiple = Dot::kOddFirst ? 2 : Dot::kGroup;
  return (depth + kMultiple - 1) / kMultiple * (kMultiple / Dot::kGroup);
}

template <class T, int Size>
struct Padded {
  T values[Size] = {};
  Padded(const T* from, std::int64_t count) {
    for (std::int64_t i = 0; i < count && i < Size; ++i) values[i] = from[i];
  }
};

/// Makes words from `count` columns of two rows, starting at column `at`. A null row counts as zeros. With one input
/// per word, the second row is unused.
template <class Dot, class T>
VecI words_across(const T* even, const T* odd, std::int64_t at, std::int64_t count) {
  if (even == nullptr) return VecI{};
  if (count >= kLanes && odd != nullptr) return Words<Dot, T>::across(even + at, odd + at);
  const Padded<T, kLanes> first(even + at, count), second(odd == nullptr ? even : odd + at, odd == nullptr ? 0 : count);
  return Words<Dot, T>::across(first.values, second.values);
}

template <class Dot, class T>
struct RowsOfGroup {
  const T* even;
  const T* odd;
  RowsOfGroup(const OperandTile& from, std::int64_t depth, std::int64_t group)
      : even(row_of(from, depth, Dot::kOddFirst ? group ^ 1 : group * Dot::kGroup)),
        odd(Dot::kGroup == 1 ? even : row_of(from, depth, group * Dot::kGroup + 1)) {}
  static const T* row_of(const OperandTile& from, std::int64_t depth, std::int64_t row) {
    return row < depth ? static_cast<const T*>(from.data) + row * from.stride : nullptr;
  }
};

inline constexpr std::int64_t kRowsAhead = 32;

/// Prefetches the first `columns` columns of a group's rows, which are too far apart for hardware prefetching.
template <class Dot, class T>
void prefetch_rows(const OperandTile& from, std::int64_t row, std::int64_t depth, std::int64_t columns) {
  for (std::int64_t r = row; r < row + Dot::kGroup && r < depth; ++r) {
    const char* line = reinterpret_cast<const char*>(static_cast<const T*>(from.data) + r * from.stride);
    for (std::int64_t at = 0; at < columns * static_cast<std::int64_t>(sizeof(T)); at += 64)
      __builtin_prefetch(line + at, 0, 3);
  }
}

template <class Lanes, class T>
inline void write(VecF value, bool accumulate, T* to, Lanes lanes) {
  store(to, accumulate ? load(to, lanes) + value : value, lanes);
}

template <int Vectors>
inline void write_row(const MatmulTiles& task, std::int64_t row, std::int64_t column, const VecF (&sums)[Vectors]) {
  const auto write_to = [&](auto* out) {
    auto* to = out + row * task.out_stride + column;
    for (int v = 0; v < Vectors; ++v) {
      const std::int64_t left_over = task.columns - column - v * kLanes;
      if (left_over >= kLanes) write(sums[v], task.accumulate, to + v * kLanes, All{});
      else if (left_over > 0) write(sums[v], task.accumulate, to + v * kLanes, First{static_cast<int>(left_over)});
    }
  };
  if (task.out.is_bf16) write_to(static_cast<std::uint16_t*>(task.out.data));
  else write_to(static_cast<float*>(task.out.data));
}

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
