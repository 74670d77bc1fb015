#pragma once

#include "ops/kernels/amx/tiles.h"
#include "ops/kernels/small_matmuls.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

/// Computes the small bf16 matmuls in AMX tiles. Left operands are contiguous rows; turned() transposes words into such
/// rows.
template <>
class SmallMatmuls<Bf16Dot> {
 public:
  static constexpr std::int64_t kDepth = kTile * Bf16Tiles::kInputs, kRows = kBlock;
  static_assert(kSmallMultiple % kDepth == 0 && kSmallMultiple % kBlock == 0);

  SmallMatmuls() { tiles_.set_rows(kBlock); }

  void multiply(Left<Bf16Dot> a, Right<Bf16Dot> b, std::int64_t rows, std::int64_t columns, std::int64_t depth,
                bool accumulate, float* c, std::int64_t c_stride) const {
    const std::int64_t steps = (depth + kDepth - 1) / kDepth;
    const auto* words = reinterpret_cast<const std::byte*>(b.data);
    for (std::int64_t row = 0; row < rows; row += kBlock) {
      const auto* first = reinterpret_cast<const std::byte*>(a.data + row * a.row_stride);
      const std::int64_t row_bytes = a.row_stride * 2;
      const LeftBlock left{first, first + kTile * row_bytes, row_bytes, kTileRowBytes};
      for (std::int64_t column = 0; column < columns; column += kBlock) {
        float* sums = c + row * c_stride + column;
        if (accumulate) load_sums(tiles_, sums, c_stride * 4);
        else clear_sums();
        add_products<Bf16Tiles, true>(left, {words + column * 4, b.stride * 4}, steps, [] {});
        store_sums(tiles_, sums, c_stride * 4);
      }
    }
  }

  Left<Bf16Dot> turned(const std::uint16_t* words, std::int64_t wide, std::int64_t depth, std::uint16_t* memory) const {
    const std::int64_t num_words = (depth + kDepth - 1) / kDepth * kTile;
    for (std::int64_t row = 0; row < wide; row += kTile) {
      for (std::int64_t word = 0; word < num_words; word += kTile) {
        VecI square[kTile];
        for (int w = 0; w < kTile; ++w) square[w] = load_words(words + elements<Bf16Dot>((word + w) * wide + row));
        transpose(square);
        for (int r = 0; r < kTile; ++r)
          store_words(memory + elements<Bf16Dot>((row + r) * num_words + word), square[r]);
      }
    }
    return {memory, elements<Bf16Dot>(num_words), Bf16Dot::kGroup};
  }
  static constexpr std::int64_t turned_size(std::int64_t wide, std::int64_t most_depth) { return wide * most_depth; }

 private:
  Tiles tiles_;
};

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
