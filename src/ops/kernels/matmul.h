// Owns the matmul kernels of each ISA path: packing of both operands, and tiles. bf16 is passed as bits.
#pragma once

#include <cstdint>

#include "ops/matmul.h"

namespace qrl::ops {

/// A part of an operand, with element (r, c) at data[r · stride + c].
struct OperandTile {
  const void* data = nullptr;
  bool is_bf16 = false;
  std::int64_t stride = 0;
};

/// Describes the product of left rows and one panel of the right operand, over a chunk of the depth.
struct MatmulTiles {
  const void* left = nullptr;    ///< packed strips, or the operand's rows in the compute dtype
  std::int64_t left_stride = 0;  ///< elements between rows; 0: packed
  const void* panel = nullptr;
  std::int64_t rows = 0, columns = 0, depth = 0;
  bool first = true, last = true;  ///< whether this is the depth's first chunk, and its last chunk
  float* sums = nullptr;           ///< [rows, kMatmulPanel], sums kept between chunks
  MixedArray out;                  ///< output at the product's first row and column
  std::int64_t out_stride = 0;
  bool accumulate = false;
};

inline constexpr std::int64_t kMatmulPanel = 64;  ///< columns per panel, on every path

struct MatmulKernels {
  std::int64_t strip_rows = 0;
  std::int64_t inputs_per_word = 0;  ///< inputs per 32-bit word, adjacent along the depth
  std::int64_t words_at_once = 1;    ///< multiple of words to which panels and strips are zero-padded
  /// Packs `columns` columns into words [⌈depth / inputs_per_word⌉][kMatmulPanel], zero-padded. `from` is [depth,
  /// columns], or [columns, depth] if `transposed`.
  void (*pack_right)(const OperandTile& from, bool transposed, std::int64_t depth, std::int64_t columns, void* panel);
  /// Packs [depth, rows] into strips of words [⌈depth / inputs_per_word⌉][strip_rows]. On amx, a strip is [⌈depth /
  /// inputs_per_word / 16⌉][strip_rows][16].
  void (*pack_left)(const OperandTile& from, std::int64_t depth, std::int64_t rows, void* strips);
  void (*tiles)(const MatmulTiles& task);
  /// Packs [rows, depth] into the strips of pack_left. Null: `tiles` reads these rows where they are.
  void (*pack_left_rows)(const OperandTile& from, std::int64_t depth, std::int64_t rows, void* strips) = nullptr;
};

}  // namespace qrl::ops
