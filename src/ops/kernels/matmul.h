// What src/ops/matmul.cpp calls on each ISA path: packing of both operands, and the tiles between them. bf16 is passed
// as its bits.
#pragma once

#include <cstdint>

#include "ops/matmul.h"

namespace qrl::ops {

/// A tile of an operand, element (r, c) at data[r · stride + c].
struct OperandTile {
  const void* data = nullptr;
  bool is_bf16 = false;
  std::int64_t stride = 0;
};

/// Rows of the left operand against one panel of the right one, over a chunk of the depth.
struct MatmulTiles {
  const void* left = nullptr;    ///< packed strips, or the operand's own rows (of the compute dtype)
  std::int64_t left_stride = 0;  ///< elements from row to row; 0: packed
  const void* panel = nullptr;
  std::int64_t rows = 0, columns = 0, depth = 0;
  bool first = true, last = true;  ///< of the chunks of the depth
  float* sums = nullptr;           ///< [rows, kMatmulPanel]: what goes from one chunk to the next
  MixedArray out;                  ///< the first row's first column
  std::int64_t out_stride = 0;
  bool accumulate = false;
};

inline constexpr std::int64_t kMatmulPanel = 64;  ///< columns of a panel, on every path

/// Of one compute dtype.
struct MatmulKernels {
  std::int64_t strip_rows = 0;       ///< rows of a packed strip
  std::int64_t inputs_per_word = 0;  ///< neighbors along the depth in a 32-bit word
  std::int64_t words_at_once = 1;    ///< panels and strips have zeros up to a multiple of so many words
  /// Words [⌈depth / inputs⌉][kMatmulPanel] of `columns` columns, zero beyond the shape. transposed: the tile is
  /// [columns, depth], else [depth, columns].
  void (*pack_right)(const OperandTile& from, bool transposed, std::int64_t depth, std::int64_t columns, void* panel);
  /// Strips of [⌈depth / inputs⌉][strip_rows] words (amx: of [⌈depth / inputs / 16⌉][strip_rows][16]), from a tile
  /// [depth, rows].
  void (*pack_left)(const OperandTile& from, std::int64_t depth, std::int64_t rows, void* strips);
  void (*tiles)(const MatmulTiles& task);
};

namespace avx512 {
extern const MatmulKernels kBf16Matmul, kF32Matmul;
}
namespace avx2 {
extern const MatmulKernels kBf16Matmul, kF32Matmul;
}
namespace portable {
extern const MatmulKernels kBf16Matmul, kF32Matmul;
}

#if defined(QRL_ISA_NAMESPACE)
namespace QRL_ISA_NAMESPACE {
extern const MatmulKernels kBf16Matmul;
}
#endif

}  // namespace qrl::ops
