// What src/ops/product.cpp calls on each ISA path: packing of both operands, and the tiles between them. bf16 is passed
// as its bits.
#pragma once

#include <cstdint>

#include "ops/product.h"

namespace qrl::ops {

/// A piece of an operand, element (r, c) at data[r · stride + c].
struct OperandPiece {
  const void* data = nullptr;
  bool is_bf16 = false;
  std::int64_t stride = 0;
};

/// Rows of the left operand against one panel of the right one, over a piece of the depth.
struct ProductTiles {
  const void* left = nullptr;    ///< packed strips, or the operand's own rows (of the compute dtype)
  std::int64_t left_stride = 0;  ///< elements from row to row; 0: packed
  const void* panel = nullptr;
  std::int64_t rows = 0, columns = 0, depth = 0;
  bool first = true, last = true;  ///< of the pieces of the depth
  float* sums = nullptr;           ///< [rows, kProductPanel]: what goes from one piece to the next
  MixedArray out;                  ///< the first row's first column
  std::int64_t out_stride = 0;
  bool accumulate = false;
};

inline constexpr std::int64_t kProductPanel = 64;  ///< columns of a panel, on every path

/// Of one compute dtype.
struct ProductKernels {
  std::int64_t strip_rows = 0;       ///< rows of a packed strip
  std::int64_t inputs_per_word = 0;  ///< neighbors along the depth in a 32-bit word
  std::int64_t words_at_once = 1;    ///< panels and strips have zeros up to a multiple of so many words
  /// Words [⌈depth / inputs⌉][kProductPanel] of `columns` columns, zero beyond the shape. transposed: the piece is
  /// [columns, depth], else [depth, columns].
  void (*pack_right)(const OperandPiece& from, bool transposed, std::int64_t depth, std::int64_t columns, void* panel);
  /// Strips of [⌈depth / inputs⌉][strip_rows] words (amx: of [⌈depth / inputs / 16⌉][strip_rows][16]), from a piece
  /// [depth, rows].
  void (*pack_left)(const OperandPiece& from, std::int64_t depth, std::int64_t rows, void* strips);
  void (*tiles)(const ProductTiles& task);
};

namespace amx {
extern const ProductKernels kBf16Product;
}
namespace avx512 {
extern const ProductKernels kBf16Product, kF32Product;
}
namespace avx2 {
extern const ProductKernels kBf16Product, kF32Product;
}
namespace portable {
extern const ProductKernels kBf16Product, kF32Product;
}

}  // namespace qrl::ops
