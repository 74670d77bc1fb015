// Owns how AMX's tile registers are used: a block of up to 32 rows by 32 columns, in 2 × 2 tiles of 16 × 16 sums. Right
// operands are panels as every path packs them (a word of neighboring inputs for each of 64 columns), left ones rows
// as they lie: both are what the tiles take. Knows neither formats of weights nor matrices.
#pragma once

#include "ops/kernels/simd.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

inline constexpr int kTile = 16;                   // rows of a tile, and 32-bit words of each
inline constexpr int kBlock = 2 * kTile;           // rows, and columns, of a block
inline constexpr std::int64_t kTileRowBytes = 64;  // of a tile
inline constexpr std::int64_t kPanelRowBytes = 256;

/// What a block's products take and give: 16 words of inputs at a time.
struct Int8Tiles {
  static constexpr int kInputs = 4;  // of a word: s8 times s8, exact in int32
  using Sum = VecI;
};
/// tdpbf16ps adds up the 16 words' first products and their second ones apart, in fp32, then both to the sum; it takes
/// and gives subnormals as zero, and rounds to nearest even.
struct Bf16Tiles {
  static constexpr int kInputs = 2;
  using Sum = VecF;
};

/// The tiles of one call: registers 0 … 3 are sums, 4 and 5 rows, 6 and 7 columns. They are released at its end, since
/// the system keeps 8 KiB of them at each change of threads otherwise.
class Tiles {
 public:
  Tiles() = default;
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
  ~Tiles() { _tile_release(); }

  /// Blocks have this many rows from now on, 1 … kBlock.
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

/// Rows of the left operand: the first sixteen and the others, and how far it is from a row to the next and from 16
/// words of inputs to the next.
struct LeftBlock {
  const std::byte *first, *second;
  std::int64_t row_bytes, step_bytes;
};

/// Of the right operand: 32 columns of the first word of inputs, and how far it is to the next word's.
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

/// Sums [rows, kBlock] of 32-bit words, `row_bytes` from row to row.
inline void load_sums(const Tiles& tiles, const void* from, std::int64_t row_bytes) {
  __asm__ volatile("" ::: "memory");  // tile loads do not say that they read memory
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

// Tile numbers are part of the instruction's name, hence the repetition.
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

/// Adds `steps` times 16 words of inputs, of the block's rows and columns, to the sums. Calls ask() before each step.
template <class Unit, class Ask>
inline void add_products(const Tiles& tiles, const LeftBlock& rows, const RightBlock& columns, std::int64_t steps,
                         Ask&& ask) {
  if (tiles.has_second()) add_products<Unit, true>(rows, columns, steps, ask);
  else add_products<Unit, false>(rows, columns, steps, ask);
}

/// Asks for the next panel, as many lines at each step of this one's blocks as has it all asked for by the last: more
/// at once would keep the blocks' own loads waiting.
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
