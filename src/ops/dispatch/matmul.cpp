#include "ops/matmul.h"

#include <algorithm>
#include <atomic>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/threads.h"
#include "ops/kernels/kernels.h"
#include "ops/kernels/matmul.h"
#include "ops/ranges.h"
#include "ops/scratch.h"
#include "ops/subnormals.h"

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
/// Minimum number of panels packed at once. Fewer would have the left rows packed or read too often, so of a greater
/// depth only a part is packed at once.
constexpr std::int64_t kFewestPanels = 12;
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

/// Divides the depth of a matmul into chunks and its right operand into panels, which are packed in batches: a batch
/// has some panels and some chunks. A task multiplies some left rows by a batch's panels, or some of them.
struct Plan {
  Plan(const Matmul& task, const MatmulKernels& table) {
    add_chunks(task.left, task.right, task.depth, table);
    add_chunks(task.more_left, task.more_right, task.more_depth, table);
    chunks.front().first = chunks.back().last = true;
    panels = ceil_div(task.columns, kMatmulPanel);
    const std::int64_t threads = base::num_threads(), tasks = 2 * threads;
    const std::int64_t few = std::min(panels, kFewestPanels), most_words = kMostPanelWords / kMatmulPanel;
    std::int64_t largest = 0;
    for (const Chunk& chunk : chunks) largest = std::max(largest, chunk.words);
    batch_chunks = std::ssize(chunks);
    if (all_words * few > most_words) batch_chunks = std::max<std::int64_t>(1, most_words / (few * largest));
    batch_words = std::min(all_words, batch_chunks * largest);
    panels_at_once = std::clamp<std::int64_t>(most_words / batch_words, 1, panels);
    const std::int64_t most_rows = std::max(kFewestRows, std::min(kMostLeftWords / batch_words, task.rows / tasks));
    chunk_rows = round_up(ceil_div(task.rows, ceil_div(task.rows, most_rows)), table.strip_rows);
    row_chunks = ceil_div(task.rows, chunk_rows);
    // Gives a task as many panels as possible, because each task packs its own left rows.
    panels_of_task = ceil_div(panels_at_once, std::min(panels_at_once, ceil_div(tasks, row_chunks)));
  }
  struct Chunk {
    Operand left, right;
    std::int64_t begin = 0, depth = 0;  ///< first input and number of inputs
    std::int64_t words = 0;             ///< in panel columns and in packed left rows
    bool first = false, last = false;
  };
  void add_chunks(const Operand& left, const Operand& right, std::int64_t depth, const MatmulKernels& table) {
    const std::int64_t words = ceil_div(depth, table.inputs_per_word);
    if (words == 0) return;
    const std::int64_t most = round_up(ceil_div(words, ceil_div(words, kMostWords)), table.words_at_once);
    for (std::int64_t word = 0; word < words; word += most) {
      const std::int64_t begin = word * table.inputs_per_word;
      const std::int64_t here = std::min(most, round_up(words - word, table.words_at_once));
      chunks.push_back({left, right, begin, std::min(most * table.inputs_per_word, depth - begin), here});
      all_words += here;
    }
  }

  std::vector<Chunk> chunks;
  std::int64_t all_words = 0;
  std::int64_t batch_chunks = 1, batch_words = 0;  ///< at most, in a batch
  std::int64_t panels = 0, panels_at_once = 1, panels_of_task = 1;
  std::int64_t chunk_rows = 0, row_chunks = 1;
};

using Chunks = std::span<const Plan::Chunk>;

void pack_panel(const Matmul& task, const MatmulKernels& table, Chunks chunks, std::int64_t panel, float* to) {
  const std::int64_t column = panel * kMatmulPanel;
  for (const Plan::Chunk& chunk : chunks) {
    table.pack_right(tile(chunk.right, chunk.begin, column), chunk.right.transposed, chunk.depth,
                     std::min(kMatmulPanel, task.columns - column), to);
    to += chunk.words * kMatmulPanel;
  }
}

/// Describes a batch's packed panels, and the sums [panels, task.rows, kMatmulPanel] that batches of a deep product
/// keep.
struct Batch {
  Chunks chunks;
  base::Range panels;
  std::int64_t words = 0;  ///< of a panel's column
  const float* packed = nullptr;
  float* sums = nullptr;  ///< null: the chunks are the whole depth
};

void run_task(const Matmul& task, const MatmulKernels& table, const Batch& batch, base::Range rows,
              base::Range panels) {
  const FlushSubnormals flush;
  const std::int64_t strip_rows = round_up(rows.size(), table.strip_rows);
  const auto is_packed = [&](const Plan::Chunk& chunk) { return chunk.left.transposed || table.pack_left_rows; };
  const bool packs_left = std::ranges::any_of(batch.chunks, is_packed);
  const std::int64_t left_floats = packs_left ? strip_rows * batch.words : 0;
  const std::int64_t sum_floats = batch.sums == nullptr && batch.chunks.size() > 1 ? rows.size() * kMatmulPanel : 0;
  float* const left = scratch(left_floats + sum_floats + 64);
  std::int64_t word = 0;
  for (const Plan::Chunk& chunk : batch.chunks) {
    const auto pack = chunk.left.transposed ? table.pack_left : table.pack_left_rows;
    if (is_packed(chunk))
      pack(tile(chunk.left, rows.begin, chunk.begin), chunk.depth, rows.size(), left + word * strip_rows);
    word += chunk.words;
  }
  for (std::int64_t p = panels.begin; p < panels.end; ++p) {
    const std::int64_t column = p * kMatmulPanel, place = p - batch.panels.begin;
    MatmulTiles tiles;
    tiles.rows = rows.size();
    tiles.columns = std::min(kMatmulPanel, task.columns - column);
    tiles.sums =
        batch.sums == nullptr ? left + left_floats : batch.sums + (place * task.rows + rows.begin) * kMatmulPanel;
    tiles.out = task.out;
    tiles.out.data =
        static_cast<std::byte*>(task.out.data) + (rows.begin * task.out_stride + column) * element_bytes(task.out);
    tiles.out_stride = task.out_stride;
    tiles.accumulate = task.accumulate;
    word = 0;
    for (const Plan::Chunk& chunk : batch.chunks) {
      tiles.panel = batch.packed + (place * batch.words + word) * kMatmulPanel;
      tiles.left_stride = is_packed(chunk) ? 0 : chunk.left.stride;
      tiles.left = is_packed(chunk) ? left + word * strip_rows : at(chunk.left, rows.begin, chunk.begin);
      tiles.depth = chunk.depth;
      tiles.first = chunk.first;
      tiles.last = chunk.last;
      table.tiles(tiles);
      word += chunk.words;
    }
  }
}

/// Separate from scratch(), which tasks use.
float* panel_memory(std::int64_t num_floats) {
  thread_local base::Buffer memory;
  return grown(memory, num_floats);
}

void run_batch(const Matmul& task, const MatmulKernels& table, const Plan& plan, const Batch& batch, float* packed) {
  const base::Range panels = batch.panels;
  std::atomic<std::int64_t> next_panel{panels.begin}, next_task{0};
  base::parallel(0, [&](base::Team& team) {
    for (std::int64_t p = next_panel++; p < panels.end; p = next_panel++)
      pack_panel(task, table, batch.chunks, p, packed + (p - panels.begin) * batch.words * kMatmulPanel);
    team.barrier();
    const std::int64_t num_tasks = plan.row_chunks * ceil_div(panels.size(), plan.panels_of_task);
    for (std::int64_t at = next_task++; at < num_tasks; at = next_task++) {
      const std::int64_t row = at % plan.row_chunks * plan.chunk_rows;
      const std::int64_t panel = panels.begin + at / plan.row_chunks * plan.panels_of_task;
      run_task(task, table, batch, {row, std::min(task.rows, row + plan.chunk_rows)},
               {panel, std::min(panels.end, panel + plan.panels_of_task)});
    }
  });
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
  const bool is_deep = plan.batch_chunks < std::ssize(plan.chunks);
  const std::int64_t panel_floats = plan.panels_at_once * plan.batch_words * kMatmulPanel;
  float* const packed = panel_memory(panel_floats + (is_deep ? plan.panels_at_once * task.rows * kMatmulPanel : 0));
  for (std::int64_t first = 0; first < plan.panels; first += plan.panels_at_once) {
    for (std::int64_t chunk = 0; chunk < std::ssize(plan.chunks); chunk += plan.batch_chunks) {
      Batch batch{Chunks(plan.chunks).subspan(static_cast<std::size_t>(chunk)),
                  {first, std::min(plan.panels, first + plan.panels_at_once)}};
      batch.chunks = batch.chunks.first(std::min(batch.chunks.size(), static_cast<std::size_t>(plan.batch_chunks)));
      for (const Plan::Chunk& part : batch.chunks) batch.words += part.words;
      batch.packed = packed;
      if (is_deep) batch.sums = packed + panel_floats;
      run_batch(task, table, plan, batch, packed);
    }
  }
}

}  // namespace qrl::ops
