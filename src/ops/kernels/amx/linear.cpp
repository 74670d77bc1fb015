// Implements the matmuls of bf16 and int8 layers with AMX (ops/linear.h). int8 results equal the other paths' bitwise.
#include "ops/kernels/linear.h"

#include "ops/kernels/amx/tiles.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

namespace {

/// Maximum number of rows for which int8 uses the AVX-512 kernel, because reading the weights dominates. Both kernels
/// sum exactly.
constexpr std::int64_t kRowsByVectors = 4;

VecF finish(const LinearTask&, VecF sum, std::int64_t, std::int64_t) { return sum; }
VecF finish(const LinearTask& task, VecI sum, std::int64_t row, std::int64_t column) {
  return scaled_int8(task, sum, row, column);
}

/// Computes half a panel's columns at a time, so that fewer weights compete for L1.
template <class Unit>
void linear(const LinearTask& task) {
  constexpr std::int64_t kValueBytes = 4 / Unit::kInputs;
  const std::int64_t words = (task.in + Unit::kInputs - 1) / Unit::kInputs, steps = words / kTile;
  const std::int64_t words_left = words % kTile, panel_bytes = words * kPanelRowBytes;
  const std::int64_t row_bytes = task.x_stride * kValueBytes, done_bytes = steps * kTileRowBytes;
  const std::int64_t steps_of_panel = (task.rows + kBlock - 1) / kBlock * (kPanel / kBlock) * (steps > 0 ? steps : 1);
  const auto* x = static_cast<const std::byte*>(task.x);
  alignas(64) std::byte last_words[kTile * kPanelRowBytes];
  alignas(64) std::int32_t sums[kBlock * kBlock];
  __builtin_memset(last_words, 0, sizeof last_words);
  Tiles tiles;
  for (std::int64_t p = task.first_panel; p < task.end_panel; ++p) {
    const std::byte* panel = static_cast<const std::byte*>(task.panels) + p * panel_bytes;
    __builtin_memcpy(last_words, panel + steps * kTile * kPanelRowBytes,
                     static_cast<std::size_t>(words_left * kPanelRowBytes));
    NextPanel next(panel + panel_bytes, panel_bytes, steps_of_panel);
    for (std::int64_t offset = 0; offset < kPanel && p * kPanel + offset < task.out; offset += kBlock) {
      const std::int64_t offset_bytes = offset * 4;
      for (std::int64_t row = 0; row < task.rows; row += kBlock) {
        tiles.set_rows(task.rows - row < kBlock ? task.rows - row : kBlock);
        // Whole tile rows may be read, because activation rows are zero-padded to a cache line.
        const LeftBlock rows{x + row * row_bytes, x + (row + kTile) * row_bytes, row_bytes, kTileRowBytes};
        const LeftBlock last{rows.first + done_bytes, rows.second + done_bytes, row_bytes, kTileRowBytes};
        clear_sums();
        add_products<Unit>(tiles, rows, {panel + offset_bytes}, steps, next);
        if (words_left > 0) add_products<Unit>(tiles, last, {last_words + offset_bytes}, 1, [] {});
        store_sums(tiles, sums, kBlock * 4);
        for (std::int64_t r = 0; r < tiles.rows(); ++r) {
          for (int v = 0; v < kBlock; v += kLanes) {
            const std::int64_t column = p * kPanel + offset + v;
            const auto sum = (typename Unit::Sum)load_words(sums + r * kBlock + v);
            write(task, finish(task, sum, row + r, column), nullptr, row + r, column);
          }
        }
      }
    }
  }
}

}  // namespace

void linear_bf16(const LinearTask& task) { linear<Bf16Tiles>(task); }
void linear_int8(const LinearTask& task) {
  if (task.rows <= kRowsByVectors) avx512::kKernels.linear_int8(task);
  else linear<Int8Tiles>(task);
}

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
