#pragma once

#include "cuda/runtime/operands.h"
#include "cuda/runtime/target.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

struct alignas(16) Quad {
  float at[4];
};

namespace quads {

struct alignas(8) TwoWords {
  std::uint32_t word[2];
};

/// Returns whether every quad (four adjacent numbers) in rows of `stride` numbers is aligned for one access.
template <class Number>
bool are_whole(const Number* numbers, std::int64_t stride) {
  return stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(numbers) % (4 * sizeof(Number)) == 0;
}
inline bool are_whole(const GemmRows& rows) {
  return !rows.is_f32 && are_whole(static_cast<const std::uint16_t*>(rows.values), rows.stride);
}

/// Holds a quad as stored: fp32, or bf16 in the first two words. `widen` converts it later, so that several loads are
/// in flight.
struct alignas(16) Raw {
  std::uint32_t word[4];
};

/// Loads numbers first … first + 3 of an fp32 or bf16 row. Numbers beyond `width` are 0. kWhole requires that are_whole
/// holds and that `width` is a multiple of 4.
template <bool kWhole>
QRL_DEVICE Raw load(const float* row, int first, int width) {
  if constexpr (kWhole) {
    return first < width ? *reinterpret_cast<const Raw*>(row + first) : Raw{};
  } else {
    if (first + 4 <= width && reinterpret_cast<std::uintptr_t>(row + first) % sizeof(Raw) == 0)
      return *reinterpret_cast<const Raw*>(row + first);
    Raw raw;
#pragma unroll
    for (int e = 0; e < 4; ++e) raw.word[e] = first + e < width ? bits_of(row[first + e]) : 0U;
    return raw;
  }
}
template <bool kWhole>
QRL_DEVICE Raw load(const std::uint16_t* row, int first, int width) {
  const auto whole = [&] {
    const auto words = *reinterpret_cast<const TwoWords*>(row + first);
    return Raw{{words.word[0], words.word[1], 0, 0}};
  };
  if constexpr (kWhole) {
    return first < width ? whole() : Raw{};
  } else {
    if (first + 4 <= width && reinterpret_cast<std::uintptr_t>(row + first) % sizeof(TwoWords) == 0) return whole();
    std::uint32_t numbers[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) numbers[e] = first + e < width ? row[first + e] : 0U;
    return {{numbers[0] | numbers[1] << 16, numbers[2] | numbers[3] << 16, 0, 0}};
  }
}

/// Refers to a row of a GEMM's result, from number `begin` on. kWhole requires that are_whole(rows) holds.
struct GemmRow {
  const void* values;
  bool is_f32;
  QRL_DEVICE GemmRow(const GemmRows& rows, std::int64_t row, std::int64_t begin)
      : values(static_cast<const std::uint8_t*>(rows.values) + (row * rows.stride + begin) * (rows.is_f32 ? 4 : 2)),
        is_f32(rows.is_f32) {}
  template <bool kWhole>
  QRL_DEVICE Raw load(int first, int width) const {
    if (kWhole || !is_f32) return quads::load<kWhole>(static_cast<const std::uint16_t*>(values), first, width);
    return quads::load<kWhole>(static_cast<const float*>(values), first, width);
  }
};

QRL_DEVICE Quad widen(const Raw& raw, bool is_f32) {
  if (is_f32) return {{float_of(raw.word[0]), float_of(raw.word[1]), float_of(raw.word[2]), float_of(raw.word[3])}};
  return {{float_of(raw.word[0] << 16), float_of(raw.word[0] & 0xffff0000U), float_of(raw.word[1] << 16),
           float_of(raw.word[1] & 0xffff0000U)}};
}

template <bool kWhole>
QRL_DEVICE void store(float* row, int first, int width, const Quad& quad) {
  if constexpr (kWhole) {
    if (first < width) *reinterpret_cast<Quad*>(row + first) = quad;
  } else {
    if (first + 4 <= width && reinterpret_cast<std::uintptr_t>(row + first) % sizeof(Quad) == 0) {
      *reinterpret_cast<Quad*>(row + first) = quad;
      return;
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (first + e < width) row[first + e] = quad.at[e];
    }
  }
}

/// Iterates over the quads of a row that one thread processes, in a block of kBlockThreads threads. The thread loads
/// kCount quads at once. These quads are kStride numbers apart.
template <int kBlockThreads, int kCount_>
struct Own {
  static constexpr int kCount = kCount_;
  static constexpr int kStride = 4 * kBlockThreads, kStep = kCount * kStride;
  QRL_DEVICE static int begin() { return 4 * thread_idx(); }
  template <class Load>
  QRL_DEVICE static void load(int begin, Raw (&to)[kCount], Load load) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) to[i] = load(begin + i * kStride);
  }
  template <class Body>
  QRL_DEVICE static void each(int begin, int end, Body body) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (begin + i * kStride < end) body(i, begin + i * kStride);
    }
  }
};

}  // namespace quads

}  // namespace qrl::cuda::QRL_CUDA_TARGET
