// Owns how a thread reads and writes four neighbours of a row at once. Included by kernel sources only.
#pragma once

#include "kernels.h"
#include "target.h"

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

QRL_DEVICE float number(float value) { return value; }
QRL_DEVICE float number(std::uint16_t bf16) { return float_of_bf16(bf16); }

template <class Number>
QRL_DEVICE Quad load_single(const Number* row, std::int64_t first, std::int64_t width) {
  Quad quad;
  for (int e = 0; e < 4; ++e) quad.at[e] = first + e < width ? number(row[first + e]) : 0.0F;
  return quad;
}

}  // namespace quads

/// Numbers first … first + 3 of a row of `width`, 0 beyond it; fp32, or bf16.
QRL_DEVICE Quad load_quad(const float* row, std::int64_t first, std::int64_t width) {
  if (!quads::are_whole(row + first, first, width)) return quads::load_single(row, first, width);
  return *reinterpret_cast<const Quad*>(row + first);
}
QRL_DEVICE Quad load_quad(const std::uint16_t* row, std::int64_t first, std::int64_t width) {
  if (!quads::are_whole(row + first, first, width)) return quads::load_single(row, first, width);
  const auto words = *reinterpret_cast<const quads::TwoWords*>(row + first);
  return {{float_of(words.word[0] << 16), float_of(words.word[0] & 0xffff0000U), float_of(words.word[1] << 16),
           float_of(words.word[1] & 0xffff0000U)}};
}
/// Numbers first … first + 3 of `width` that begin at number `begin` of a product's row.
QRL_DEVICE Quad load_quad(const ProductRows& rows, std::int64_t row, std::int64_t begin, std::int64_t first,
                          std::int64_t width) {
  const std::int64_t at = row * rows.stride + begin;
  return rows.is_f32 ? load_quad(static_cast<const float*>(rows.values) + at, first, width)
                     : load_quad(static_cast<const std::uint16_t*>(rows.values) + at, first, width);
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
