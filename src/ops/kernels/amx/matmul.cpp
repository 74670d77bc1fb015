// Implements the bf16 matmuls of training with AMX (matmul.h). Left rows are read in place, or from strips packed as
// tiles of 16 rows by 16 words.
#include "ops/kernels/matmul.h"

#include "ops/kernels/amx/tiles.h"
#include "ops/kernels/kernels.h"
#include "ops/kernels/matmul_words.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

namespace {

constexpr std::int64_t kStepInputs = kTile * Bf16Tiles::kInputs;
constexpr std::int64_t kTileWords = kTile * kTile;

constexpr std::int64_t ceil_div(std::int64_t count, std::int64_t divisor) { return (count + divisor - 1) / divisor; }

void pack_right(const OperandTile& from, bool transposed, std::int64_t depth, std::int64_t columns, void* panel) {
  avx512::kKernels.bf16_matmul->pack_right(from, transposed, depth, columns, panel);
  const std::int64_t words = ceil_div(depth, Bf16Tiles::kInputs), all = ceil_div(words, kTile) * kTile;
  __builtin_memset(static_cast<std::byte*>(panel) + words * kPanelRowBytes, 0,
                   static_cast<std::size_t>((all - words) * kPanelRowBytes));
}

template <class T>
void pack_left_from(const OperandTile& from, std::int64_t depth, std::int64_t rows, std::int32_t* strips) {
  const std::int64_t words = ceil_div(depth, Bf16Tiles::kInputs), steps = ceil_div(words, kTile);
  for (std::int64_t step = 0; step < steps; ++step) {
    for (std::int64_t row = 0; row < rows; row += kTile) {
      VecI tile[kTile];
      for (std::int64_t w = 0; w < kTile; ++w) {
        const std::int64_t word = step * kTile + w;
        tile[w] = VecI{};
        if (word >= words) continue;
        const RowsOfGroup<Bf16Dot, T> of(from, depth, word);
        if (row == 0) prefetch_rows<Bf16Dot, T>(from, word * Bf16Tiles::kInputs + kRowsAhead, depth, rows);
        tile[w] = words_across<Bf16Dot, T>(of.even, of.odd, row, rows - row);
      }
      transpose(tile);
      std::int32_t* to = strips + (row / kTile * steps + step) * kTileWords;
      for (int r = 0; r < kTile; ++r) store_words(to + r * kTile, tile[r]);
    }
  }
}

void pack_left(const OperandTile& from, std::int64_t depth, std::int64_t rows, void* strips) {
  auto* words = static_cast<std::int32_t*>(strips);
  if (from.is_bf16) pack_left_from<std::uint16_t>(from, depth, rows, words);
  else pack_left_from<float>(from, depth, rows, words);
}

LeftBlock left_at(const MatmulTiles& task, std::int64_t row, std::int64_t strip_steps) {
  const auto* left = static_cast<const std::byte*>(task.left);
  if (task.left_stride == 0) {
    const std::int64_t strip_bytes = strip_steps * kTileWords * 4;
    const std::byte* first = left + row / kTile * strip_bytes;
    return {first, first + strip_bytes, kTileRowBytes, kTileWords * 4};
  }
  const std::int64_t row_bytes = task.left_stride * 2;
  return {left + row * row_bytes, left + (row + kTile) * row_bytes, row_bytes, kTileRowBytes};
}

/// Prefetches a block's output lines, a few rows per step.
class OutLines {
 public:
  OutLines(const MatmulTiles& task, std::int64_t row, std::int64_t column, std::int64_t rows)
      : row_(static_cast<const std::byte*>(task.out.data) +
             (row * task.out_stride + column) * (task.out.is_bf16 ? 2 : 4)),
        row_bytes_(task.out_stride * (task.out.is_bf16 ? 2 : 4)),
        block_bytes_(kBlock * (task.out.is_bf16 ? 2 : 4)),
        rows_left_(task.last ? rows : 0) {}
  void operator()() {
    for (int rows = 0; rows < 2 && rows_left_ > 0; ++rows, --rows_left_, row_ += row_bytes_) {
      for (std::int64_t b = 0; b < block_bytes_; b += kTileRowBytes) __builtin_prefetch(row_ + b, 1, 2);
    }
  }

 private:
  const std::byte* row_;
  std::int64_t row_bytes_, block_bytes_, rows_left_;
};

void tiles(const MatmulTiles& task) {
  const std::int64_t strip_steps = ceil_div(task.depth, kStepInputs);
  // Copies and zero-pads the inputs after the last whole step, because unpacked rows have no padding.
  const std::int64_t steps = task.left_stride == 0 ? strip_steps : task.depth / kStepInputs;
  const std::int64_t inputs_left = task.left_stride == 0 ? 0 : task.depth % kStepInputs;
  alignas(64) std::uint16_t last_inputs[kBlock * kStepInputs] = {};
  const auto* copied = reinterpret_cast<const std::byte*>(last_inputs);
  const LeftBlock last{copied, copied + kTile * kTileRowBytes, kTileRowBytes, kTileRowBytes};
  alignas(64) float sums[kBlock * kBlock];
  const std::int64_t panel_bytes = strip_steps * kTile * kPanelRowBytes,
                     num_blocks = ceil_div(task.rows, kBlock) * ceil_div(task.columns, kBlock);
  NextPanel next(static_cast<const std::byte*>(task.panel) + panel_bytes, panel_bytes, num_blocks * strip_steps);
  Tiles tiles;
  for (std::int64_t row = 0; row < task.rows; row += kBlock) {
    tiles.set_rows(task.rows - row < kBlock ? task.rows - row : kBlock);
    const LeftBlock left = left_at(task, row, strip_steps);
    for (std::int64_t r = 0; inputs_left > 0 && r < tiles.rows(); ++r)
      __builtin_memcpy(
          last_inputs + r * kStepInputs,
          static_cast<const std::uint16_t*>(task.left) + (row + r) * task.left_stride + steps * kStepInputs,
          static_cast<std::size_t>(inputs_left) * 2);
    for (std::int64_t column = 0; column < task.columns; column += kBlock) {
      float* between = task.sums + row * kMatmulPanel + column;
      const std::byte* panel = static_cast<const std::byte*>(task.panel) + column * 4;
      if (task.first) clear_sums();
      else load_sums(tiles, between, kPanelRowBytes);
      OutLines out(task, row, column, tiles.rows());
      add_products<Bf16Tiles>(tiles, left, {panel}, steps, [&] {
        next();
        out();
      });
      if (inputs_left > 0) add_products<Bf16Tiles>(tiles, last, {panel + steps * kTile * kPanelRowBytes}, 1, [] {});
      if (!task.last) {
        store_sums(tiles, between, kPanelRowBytes);
        continue;
      }
      store_sums(tiles, sums, kBlock * 4);
      for (std::int64_t r = 0; r < tiles.rows(); ++r) {
        const VecF of_row[2] = {load(sums + r * kBlock, All{}), load(sums + r * kBlock + kLanes, All{})};
        write_row(task, row + r, column, of_row);
      }
    }
  }
}

}  // namespace

constinit const MatmulKernels kBf16Matmul{kTile, Bf16Tiles::kInputs, kTile, pack_right, pack_left, tiles};

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
