#include "ops/product.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "base/error.h"
#include "base/threads.h"
#include "ops/isa.h"
#include "ops/kernels/product.h"
#include "ops/scratch.h"

namespace qrl::ops {

namespace {

const ProductKernels& kernels(ProductType type) {
  if (type == ProductType::f32) return for_this_isa(avx512::kF32Product, avx2::kF32Product, portable::kF32Product);
  return for_this_isa(amx::kBf16Product, avx512::kBf16Product, avx2::kBf16Product, portable::kBf16Product);
}

std::int64_t ceil_div(std::int64_t count, std::int64_t divisor) { return (count + divisor - 1) / divisor; }
std::int64_t round_up(std::int64_t count, std::int64_t multiple) { return ceil_div(count, multiple) * multiple; }

/// Words along the depth that a panel has at most: 192 KiB, which stay in a core's second cache beside
constexpr std::int64_t kMostWords = 768;
/// the words of packed rows of the left operand: 1 MiB at most.
constexpr std::int64_t kMostLeftWords = std::int64_t{1} << 18;
/// Rows below which packing a panel costs too much of the work on it.
constexpr std::int64_t kFewestRows = 48;

std::int64_t element_bytes(const MixedArray& values) { return values.is_bf16 ? 2 : 4; }

const void* at(const Operand& operand, std::int64_t row, std::int64_t column) {
  const std::int64_t element = operand.transposed ? column * operand.stride + row : row * operand.stride + column;
  return static_cast<const std::byte*>(operand.values.data) + element * element_bytes(operand.values);
}

OperandPiece piece(const Operand& operand, std::int64_t row, std::int64_t column) {
  return {at(operand, row, column), operand.values.is_bf16, operand.stride};
}

/// How the work is cut: each task has some rows and some panels.
struct Plan {
  Plan(const Product& product, const ProductKernels& table) {
    const std::int64_t words = ceil_div(product.depth, table.inputs_per_word);
    depth_pieces = std::max<std::int64_t>(1, ceil_div(words, kMostWords));
    depth_piece = round_up(ceil_div(words, depth_pieces), table.words_at_once) * table.inputs_per_word;
    depth_pieces = std::max<std::int64_t>(1, ceil_div(product.depth, depth_piece));
    panels = ceil_div(product.columns, kProductPanel);
    // Packed rows are a task's own, and meet all panels; else each panel meets as many rows as there are.
    const std::int64_t threads = base::num_threads(),
                       most_chunks = std::max<std::int64_t>(1, product.rows / kFewestRows);
    std::int64_t chunks = 0;
    if (product.left.transposed) {
      const std::int64_t most_rows = std::max(kFewestRows, kMostLeftWords / words);
      chunks = round_up(std::max(ceil_div(product.rows, most_rows), std::min(2 * threads, most_chunks)), threads);
    } else {
      chunks = std::min(ceil_div(4 * threads, panels), most_chunks);
    }
    chunk_rows = round_up(ceil_div(product.rows, chunks), table.strip_rows);
    row_chunks = ceil_div(product.rows, chunk_rows);
    const std::int64_t groups = product.left.transposed ? std::min(panels, ceil_div(2 * threads, row_chunks)) : panels;
    panels_of_task = ceil_div(panels, groups);
    panel_groups = ceil_div(panels, panels_of_task);
  }
  std::int64_t depth_piece = 0, depth_pieces = 1;
  std::int64_t panels = 0, panels_of_task = 1, panel_groups = 1;
  std::int64_t chunk_rows = 0, row_chunks = 1;
};

void run_task(const Product& product, const ProductKernels& table, const Plan& plan, base::Range rows,
              base::Range panels) {
  const std::int64_t words = round_up(ceil_div(product.depth, table.inputs_per_word), table.words_at_once);
  const std::int64_t panel_floats = plan.depth_piece / table.inputs_per_word * kProductPanel;
  const std::int64_t left_floats = product.left.transposed ? round_up(rows.size(), table.strip_rows) * words : 0;
  const std::int64_t sum_floats = plan.depth_pieces > 1 ? rows.size() * kProductPanel : 0;
  float* panel = scratch(panel_floats + sum_floats + left_floats + 64);
  float* sums = panel + panel_floats;
  float* left = sums + sum_floats;
  const auto for_pieces = [&](const auto& body) {
    for (std::int64_t begin = 0; begin < product.depth; begin += plan.depth_piece)
      body(begin, std::min(plan.depth_piece, product.depth - begin));
  };
  // A piece's strips lie behind those of the pieces before.
  const auto packed = [&](std::int64_t begin) {
    return left + begin / table.inputs_per_word * round_up(rows.size(), table.strip_rows);
  };
  if (product.left.transposed) {
    for_pieces([&](std::int64_t begin, std::int64_t depth) {
      table.pack_left(piece(product.left, rows.begin, begin), depth, rows.size(), packed(begin));
    });
  }
  for (std::int64_t p = panels.begin; p < panels.end; ++p) {
    const std::int64_t column = p * kProductPanel;
    ProductTiles tiles;
    tiles.left_stride = product.left.transposed ? 0 : product.left.stride;
    tiles.panel = panel;
    tiles.rows = rows.size();
    tiles.columns = std::min(kProductPanel, product.columns - column);
    tiles.sums = sums;
    tiles.out = product.out;
    tiles.out.data = static_cast<std::byte*>(product.out.data) +
                     (rows.begin * product.out_stride + column) * element_bytes(product.out);
    tiles.out_stride = product.out_stride;
    tiles.accumulate = product.accumulate;
    for_pieces([&](std::int64_t begin, std::int64_t depth) {
      table.pack_right(piece(product.right, begin, column), product.right.transposed, depth, tiles.columns, panel);
      tiles.left = product.left.transposed ? packed(begin) : at(product.left, rows.begin, begin);
      tiles.depth = depth;
      tiles.first = begin == 0;
      tiles.last = begin + depth == product.depth;
      table.tiles(tiles);
    });
  }
}

}  // namespace

void multiply(const Product& product) {
  QRL_INVARIANT(
      product.rows >= 0 && product.columns > 0 && product.depth > 0, "product", "sizes above zero",
      std::to_string(product.rows) + " x " + std::to_string(product.columns) + " x " + std::to_string(product.depth));
  QRL_INVARIANT(product.left.transposed || product.left.values.is_bf16 == (product.type == ProductType::bf16),
                "product", "a left operand of the product's type", "another");
  if (product.rows == 0) return;
  const ProductKernels& table = kernels(product.type);
  const Plan plan(product, table);
  std::atomic<std::int64_t> next{0};
  base::parallel(0, [&](base::Team&) {
    const std::int64_t num_tasks = plan.row_chunks * plan.panel_groups;
    for (std::int64_t task = next++; task < num_tasks; task = next++) {
      const std::int64_t row = task % plan.row_chunks * plan.chunk_rows;
      const std::int64_t panel = task / plan.row_chunks * plan.panels_of_task;
      run_task(product, table, plan, {row, std::min(product.rows, row + plan.chunk_rows)},
               {panel, std::min(plan.panels, panel + plan.panels_of_task)});
    }
  });
}

}  // namespace qrl::ops
