#include "ops/matmul.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/threads.h"
#include "ops/kernels/kernels.h"
#include "ops/kernels/matmul.h"
#include "ops/ranges.h"
#include "ops/scratch.h"

namespace qrl::ops {

namespace {

const MatmulKernels& matmul_kernels(MatmulType type) {
  return type == MatmulType::f32 ? *kernels().f32_matmul : *kernels().bf16_matmul;
}

/// Maximum depth of a chunk, in 32-bit words. A panel of this depth, 192 KiB, fits in L2 with the left rows.
constexpr std::int64_t kMostWords = 768;
/// Maximum number of words in a task's left rows: 1.25 MiB, to fit in L2.
constexpr std::int64_t kMostLeftWords = std::int64_t{5} << 16;
/// Maximum number of words in the panels packed at once: 8 MiB, to fit in L3.
constexpr std::int64_t kMostPanelWords = std::int64_t{1} << 21;
/// Minimum left rows per task. With fewer, a task would read more panel bytes than row bytes.
constexpr std::int64_t kFewestRows = 48;

std::int64_t element_bytes(const MixedArray& values) { return values.is_bf16 ? 2 : 4; }

const void* at(const Operand& operand, std::int64_t row, std::int64_t column) {
  const std::int64_t element = operand.transposed ? column * operand.stride + row : row * operand.stride + column;
  return static_cast<const std::byte*>(operand.values.data) + element * element_bytes(operand.values);
}

OperandTile tile(const Operand& operand, std::int64_t row, std::int64_t column) {
  return {at(operand, row, column), operand.values.is_bf16, operand.stride};
}

/// Divides the depth of a matmul into chunks and its right operand into panels, which are packed in batches. A task
/// multiplies some left rows by some packed panels.
struct Plan {
  Plan(const Matmul& task, const MatmulKernels& table) {
    add_chunks(task.left, task.right, task.depth, table);
    add_chunks(task.more_left, task.more_right, task.more_depth, table);
    chunks.front().first = chunks.back().last = true;
    panels = ceil_div(task.columns, kMatmulPanel);
    const std::int64_t threads = base::num_threads(), tasks = 2 * threads;
    panels_at_once = std::clamp<std::int64_t>(kMostPanelWords / (all_words * kMatmulPanel), 1, panels);
    const std::int64_t most_rows = std::max(kFewestRows, std::min(kMostLeftWords / all_words, task.rows / tasks));
    chunk_rows = round_up(ceil_div(task.rows, ceil_div(task.rows, most_rows)), table.strip_rows);
    row_chunks = ceil_div(task.rows, chunk_rows);
    // Gives a task as many panels as possible, because each task packs its own left rows.
    panels_of_task = ceil_div(panels_at_once, std::min(panels_at_once, ceil_div(tasks, row_chunks)));
  }
  std::int64_t panel_words() const { return all_words * kMatmulPanel; }

  struct Chunk {
    Operand left, right;
    std::int64_t begin = 0, depth = 0;  ///< first input and number of inputs
    std::int64_t first_word = 0;        ///< the chunk's offset in words, equal in panel columns and packed left rows
    bool first = false, last = false;
  };
  void add_chunks(const Operand& left, const Operand& right, std::int64_t depth, const MatmulKernels& table) {
    const std::int64_t words = ceil_div(depth, table.inputs_per_word);
    if (words == 0) return;
    const std::int64_t most = round_up(ceil_div(words, ceil_div(words, kMostWords)), table.words_at_once);
    for (std::int64_t word = 0; word < words; word += most) {
      const std::int64_t begin = word * table.inputs_per_word;
      chunks.push_back({left, right, begin, std::min(most * table.inputs_per_word, depth - begin), all_words + word});
    }
    all_words += round_up(words, table.words_at_once);
  }

  std::vector<Chunk> chunks;
  std::int64_t all_words = 0;
  std::int64_t panels = 0, panels_at_once = 1, panels_of_task = 1;
  std::int64_t chunk_rows = 0, row_chunks = 1;
};

void pack_panel(const Matmul& task, const MatmulKernels& table, const Plan& plan, std::int64_t panel, float* to) {
  const std::int64_t column = panel * kMatmulPanel;
  for (const Plan::Chunk& chunk : plan.chunks) {
    table.pack_right(tile(chunk.right, chunk.begin, column), chunk.right.transposed, chunk.depth,
                     std::min(kMatmulPanel, task.columns - column), to + chunk.first_word * kMatmulPanel);
  }
}

void run_task(const Matmul& task, const MatmulKernels& table, const Plan& plan, base::Range rows, base::Range panels,
              const float* packed) {
  const std::int64_t strip_rows = round_up(rows.size(), table.strip_rows);
  const bool packs_left = std::any_of(plan.chunks.begin(), plan.chunks.end(),
                                      [](const Plan::Chunk& chunk) { return chunk.left.transposed; });
  const std::int64_t left_floats = packs_left ? strip_rows * plan.all_words : 0;
  const std::int64_t sum_floats = plan.chunks.size() > 1 ? rows.size() * kMatmulPanel : 0;
  float* left = scratch(left_floats + sum_floats + 64);
  const auto strips = [&](const Plan::Chunk& chunk) { return left + chunk.first_word * strip_rows; };
  for (const Plan::Chunk& chunk : plan.chunks) {
    if (chunk.left.transposed)
      table.pack_left(tile(chunk.left, rows.begin, chunk.begin), chunk.depth, rows.size(), strips(chunk));
  }
  for (std::int64_t p = panels.begin; p < panels.end; ++p, packed += plan.panel_words()) {
    const std::int64_t column = p * kMatmulPanel;
    MatmulTiles tiles;
    tiles.rows = rows.size();
    tiles.columns = std::min(kMatmulPanel, task.columns - column);
    tiles.sums = left + left_floats;
    tiles.out = task.out;
    tiles.out.data =
        static_cast<std::byte*>(task.out.data) + (rows.begin * task.out_stride + column) * element_bytes(task.out);
    tiles.out_stride = task.out_stride;
    tiles.accumulate = task.accumulate;
    for (const Plan::Chunk& chunk : plan.chunks) {
      tiles.panel = packed + chunk.first_word * kMatmulPanel;
      tiles.left_stride = chunk.left.transposed ? 0 : chunk.left.stride;
      tiles.left = chunk.left.transposed ? strips(chunk) : at(chunk.left, rows.begin, chunk.begin);
      tiles.depth = chunk.depth;
      tiles.first = chunk.first;
      tiles.last = chunk.last;
      table.tiles(tiles);
    }
  }
}

/// Separate from scratch(), which tasks use.
float* panel_memory(std::int64_t num_floats) {
  thread_local base::Buffer memory;
  return grown(memory, num_floats);
}

}  // namespace

void matmul(const Matmul& task) {
  QRL_INVARIANT(task.rows >= 0 && task.columns > 0 && task.depth > 0, "matmul", "sizes above zero",
                std::to_string(task.rows) + " x " + std::to_string(task.columns) + " x " + std::to_string(task.depth));
  const auto fits = [&](const Operand& left) {
    return left.transposed || left.values.is_bf16 == (task.type == MatmulType::bf16);
  };
  QRL_INVARIANT(fits(task.left) && (task.more_depth == 0 || fits(task.more_left)), "matmul",
                "left operands of the matmul's type", "a left operand of the other type");
  if (task.rows == 0) return;
  const MatmulKernels& table = matmul_kernels(task.type);
  const Plan plan(task, table);
  float* packed = panel_memory(plan.panels_at_once * plan.panel_words());
  for (std::int64_t first = 0; first < plan.panels; first += plan.panels_at_once) {
    const base::Range panels{first, std::min(plan.panels, first + plan.panels_at_once)};
    std::atomic<std::int64_t> next_panel{panels.begin}, next_task{0};
    base::parallel(0, [&](base::Team& team) {
      for (std::int64_t p = next_panel++; p < panels.end; p = next_panel++)
        pack_panel(task, table, plan, p, packed + (p - panels.begin) * plan.panel_words());
      team.barrier();
      const std::int64_t num_tasks = plan.row_chunks * ceil_div(panels.size(), plan.panels_of_task);
      for (std::int64_t at = next_task++; at < num_tasks; at = next_task++) {
        const std::int64_t row = at % plan.row_chunks * plan.chunk_rows;
        const std::int64_t panel = panels.begin + at / plan.row_chunks * plan.panels_of_task;
        run_task(task, table, plan, {row, std::min(task.rows, row + plan.chunk_rows)},
                 {panel, std::min(panels.end, panel + plan.panels_of_task)},
                 packed + (panel - panels.begin) * plan.panel_words());
      }
    });
  }
}

}  // namespace qrl::ops
