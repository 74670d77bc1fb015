// Owns the use of AMX's tile registers: blocks of up to 32 × 32 sums in 2 × 2 tiles of 16 × 16. Right operands are
// panels in the same layout as on other ISA paths; left operands are plain rows.
#pragma once

#include "ops/kernels/simd.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

inline constexpr int kTile = 16;          // rows per tile, and 32-bit words per row
inline constexpr int kBlock = 2 * kTile;  // rows, and columns, per block
inline constexpr std::int64_t kTileRowBytes = 64;
inline constexpr std::int64_t kPanelRowBytes = 256;

/// Describes a block's operand and sum types. A step multiplies 16 words of inputs.
struct Int8Tiles {
  static constexpr int kInputs = 4;  // int8 values per word; sums are exact in int32
  using Sum = VecI;
};
/// tdpbf16ps sums even and odd products of 16 words separately in fp32, then adds both sums. It flushes subnormals to
/// zero and rounds to nearest even.
struct Bf16Tiles {
  static constexpr int kInputs = 2;
  using Sum = VecF;
};

/// Configures the tile registers: 0–3 hold sums, 4 and 5 left rows, 6 and 7 right columns. The destructor releases
/// them, because every thread switch would save their 8 KiB.
class Tiles {
 public:
  Tiles() = default;
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
  ~Tiles() { _tile_release(); }

  /// Sets the number of rows of the next blocks, 1 … kBlock.
  void set_rows(std::int64_t rows) {
    if (rows == rows_) return;
    rows_ = rows;
    const auto first = static_cast<std::uint8_t>(rows < kTile ? rows : kTile);
    const auto second = static_cast<std::uint8_t>(rows > kTile ? rows - kTile : first);
    Config config;
    const std::uint8_t heights[8] = {first, first, second, second, first, second, kTile, kTile};
    for (int i = 0; i < 8; ++i) {
      config.row_bytes[i] = kTileRowBytes;
      config.rows[i] = heights[i];
    }
    _tile_loadconfig(&config);
  }
  bool has_second() const { return rows_ > kTile; }
  std::int64_t rows() const { return rows_; }

 private:
  struct alignas(64) Config {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  };
  std::int64_t rows_ = 0;
};

/// Describes the left operand: the addresses of rows 0 and 16, the stride between rows, and the stride between steps of
/// 16 words.
struct LeftBlock {
  const std::byte *first, *second;
  std::int64_t row_bytes, step_bytes;
};

/// Describes the right operand: the address of 32 columns' word 0, and the stride between words.
struct RightBlock {
  const std::byte* first;
  std::int64_t row_bytes = kPanelRowBytes;
};

inline void clear_sums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

inline void load_sums(const Tiles& tiles, const void* from, std::int64_t row_bytes) {
  __asm__ volatile("" ::: "memory");  // tells the compiler that tile loads read memory
  const auto* bytes = static_cast<const std::byte*>(from);
  _tile_loadd(0, bytes, row_bytes);
  _tile_loadd(1, bytes + kTileRowBytes, row_bytes);
  if (!tiles.has_second()) return;
  _tile_loadd(2, bytes + kTile * row_bytes, row_bytes);
  _tile_loadd(3, bytes + kTile * row_bytes + kTileRowBytes, row_bytes);
}
inline void store_sums(const Tiles& tiles, void* to, std::int64_t row_bytes) {
  auto* bytes = static_cast<std::byte*>(to);
  _tile_stored(0, bytes, row_bytes);
  _tile_stored(1, bytes + kTileRowBytes, row_bytes);
  if (!tiles.has_second()) return;
  _tile_stored(2, bytes + kTile * row_bytes, row_bytes);
  _tile_stored(3, bytes + kTile * row_bytes + kTileRowBytes, row_bytes);
}

// A macro, because tile numbers are part of the instruction's text.
#define QRL_TILE_MATMULS(product)                           \
  _tile_loadd(4, left, rows.row_bytes);                     \
  _tile_loadd(6, words, columns.row_bytes);                 \
  product(0, 4, 6);                                         \
  _tile_loadd(7, words + kTileRowBytes, columns.row_bytes); \
  product(1, 4, 7);                                         \
  if constexpr (kSecond) {                                  \
    _tile_loadd(5, right, rows.row_bytes);                  \
    product(2, 5, 6);                                       \
    product(3, 5, 7);                                       \
  }

template <class Unit, bool kSecond, class Ask>
inline void add_products(const LeftBlock& rows, const RightBlock& columns, std::int64_t steps, Ask&& ask) {
  __asm__ volatile("" ::: "memory");
  const std::byte *left = rows.first, *right = rows.second, *words = columns.first;
  for (std::int64_t step = 0; step < steps; ++step) {
    ask();
    if constexpr (__is_same(Unit, Int8Tiles)) {
      QRL_TILE_MATMULS(_tile_dpbssd)
    } else {
      QRL_TILE_MATMULS(_tile_dpbf16ps)
    }
    left += rows.step_bytes;
    right += rows.step_bytes;
    words += kTile * columns.row_bytes;
  }
}
#undef QRL_TILE_MATMULS

/// Adds the products of `steps` steps, 16 words each, to the block's sums. Calls ask(), which prefetches, before each
/// step.
template <class Unit, class Ask>
inline void add_products(const Tiles& tiles, const LeftBlock& rows, const RightBlock& columns, std::int64_t steps,
                         Ask&& ask) {
  if (tiles.has_second()) add_products<Unit, true>(rows, columns, steps, ask);
  else add_products<Unit, false>(rows, columns, steps, ask);
}

/// Prefetches the next panel evenly over the current panel's steps.
class NextPanel {
 public:
  NextPanel(const std::byte* panel, std::int64_t bytes, std::int64_t steps)
      : line_(panel), end_(panel + bytes), lines_a_step_((bytes / kTileRowBytes + steps - 1) / steps) {}
  void operator()() {
    for (std::int64_t i = 0; i < lines_a_step_ && line_ < end_; ++i, line_ += kTileRowBytes)
      __builtin_prefetch(line_, 0, 2);
  }

 private:
  const std::byte *line_, *end_;
  std::int64_t lines_a_step_;
};

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
