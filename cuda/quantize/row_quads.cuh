// Owns how a thread reads and writes four neighbors of a row at once. Included by kernel sources only.
#pragma once

#include "cuda/runtime/kernels.h"
#include "cuda/runtime/target.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

struct alignas(16) Quad {
  float at[4];
};

namespace quads {

struct alignas(8) TwoWords {
  std::uint32_t word[2];
};

/// Whether numbers first … first + 3 are all before `width`, and lie where one access takes them.
template <class Number>
QRL_DEVICE bool are_whole(const Number* first_number, std::int64_t first, std::int64_t width) {
  return first + 4 <= width && reinterpret_cast<std::uintptr_t>(first_number) % (4 * sizeof(Number)) == 0;
}

/// Four neighbors as they lie in memory: fp32, or bf16 in the first two words. So that several loads are under way
/// before the first is used.
struct alignas(16) Raw {
  std::uint32_t word[4];
};

/// Numbers first … first + 3 of a row of `width`, 0 beyond it; fp32, or bf16.
QRL_DEVICE Raw load(const float* row, std::int64_t first, std::int64_t width) {
  if (are_whole(row + first, first, width)) return *reinterpret_cast<const Raw*>(row + first);
  Raw raw;
#pragma unroll
  for (int e = 0; e < 4; ++e) raw.word[e] = first + e < width ? bits_of(row[first + e]) : 0U;
  return raw;
}
QRL_DEVICE Raw load(const std::uint16_t* row, std::int64_t first, std::int64_t width) {
  if (are_whole(row + first, first, width)) {
    const auto words = *reinterpret_cast<const TwoWords*>(row + first);
    return {{words.word[0], words.word[1], 0, 0}};
  }
  std::uint32_t numbers[4];
#pragma unroll
  for (int e = 0; e < 4; ++e) numbers[e] = first + e < width ? row[first + e] : 0U;
  return {{numbers[0] | numbers[1] << 16, numbers[2] | numbers[3] << 16, 0, 0}};
}
/// Numbers first … first + 3 of `width` that begin at number `begin` of a GEMM's row.
QRL_DEVICE Raw load(const GemmRows& rows, std::int64_t row, std::int64_t begin, std::int64_t first,
                    std::int64_t width) {
  const std::int64_t at = row * rows.stride + begin;
  return rows.is_f32 ? load(static_cast<const float*>(rows.values) + at, first, width)
                     : load(static_cast<const std::uint16_t*>(rows.values) + at, first, width);
}

QRL_DEVICE Quad widen(const Raw& raw, bool is_f32) {
  if (is_f32) return {{float_of(raw.word[0]), float_of(raw.word[1]), float_of(raw.word[2]), float_of(raw.word[3])}};
  return {{float_of(raw.word[0] << 16), float_of(raw.word[0] & 0xffff0000U), float_of(raw.word[1] << 16),
           float_of(raw.word[1] & 0xffff0000U)}};
}

/// The quads of a row that a thread of kBlockThreads has at once: kCount of them, kStride numbers apart.
template <int kBlockThreads, int kCount_>
struct Own {
  static constexpr int kCount = kCount_;
  static constexpr std::int64_t kStride = 4 * kBlockThreads, kStep = kCount * kStride;
  QRL_DEVICE static std::int64_t begin() { return 4 * thread_idx(); }
  /// to[i] = load(number), for all before the first is used.
  template <class Load>
  QRL_DEVICE static void load(std::int64_t begin, Raw (&to)[kCount], Load load) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) to[i] = load(begin + i * kStride);
  }
  /// body(i, number) of those before `end`.
  template <class Body>
  QRL_DEVICE static void each(std::int64_t begin, std::int64_t end, Body body) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (begin + i * kStride < end) body(i, begin + i * kStride);
    }
  }
};

}  // namespace quads

/// As quads::load, widened.
QRL_DEVICE Quad load_quad(const float* row, std::int64_t first, std::int64_t width) {
  return quads::widen(quads::load(row, first, width), true);
}
QRL_DEVICE Quad load_quad(const std::uint16_t* row, std::int64_t first, std::int64_t width) {
  return quads::widen(quads::load(row, first, width), false);
}
QRL_DEVICE Quad load_quad(const GemmRows& rows, std::int64_t row, std::int64_t begin, std::int64_t first,
                          std::int64_t width) {
  return quads::widen(quads::load(rows, row, begin, first, width), rows.is_f32);
}

/// Those before `width`.
QRL_DEVICE void store_quad(float* row, std::int64_t first, std::int64_t width, const Quad& quad) {
  if (quads::are_whole(row + first, first, width)) {
    *reinterpret_cast<Quad*>(row + first) = quad;
    return;
  }
  for (int e = 0; e < 4; ++e) {
    if (first + e < width) row[first + e] = quad.at[e];
  }
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
