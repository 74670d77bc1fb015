#include "ops/linear.h"

#include <algorithm>
#include <string>

#include "ops/kernels/kernels.h"
#include "ops/ranges.h"
#include "ops/scratch.h"
#include "ops/subnormals.h"

namespace qrl::ops {

using quant::Element;
using quant::Format;

namespace {

/// Rows multiplied while a panel is in cache.
constexpr std::int64_t kBlockRows = 192;

void dispatch(Format format, const LinearTask& task) {
  const FlushSubnormals flush;
  switch (spec(format).weights) {
    case Element::f32:
      return kernels().linear_f32(task);
    case Element::bf16:
      return kernels().linear_bf16(task);
    case Element::int8:
      return kernels().linear_int8(task);
    case Element::fp8_e4m3:
      return format == Format::fp8_block128 ? kernels().linear_fp8_block(task) : kernels().linear_fp8(task);
    case Element::int4:
      return spec(format).activations == Element::int8 ? kernels().linear_int4_int8(task) : kernels().linear_int4(task);
  }
}

bool same_values(Format a, Format b) {
  return a == b || (spec(a).activations == spec(b).activations && !spec(a).has_activation_scales());
}

/// Multiplies `rows` by this member's share of `panels`. task.y points to column 0 of row rows.begin. `added` holds the
/// rows that task.added multiplies, or is null.
void multiply(base::Team& team, const Activations& x, const PackedLinear& weight, base::Range rows, base::Range panels,
              LinearTask task, const Activations* added = nullptr) {
  check_range(rows, x.max_rows(), "linear");
  QRL_INVARIANT(same_values(x.format, weight.format) && x.width == weight.in, "linear",
                std::string(name(weight.format)) + " activations of width " + std::to_string(weight.in),
                std::string(name(x.format)) + " of width " + std::to_string(x.width));
  QRL_INVARIANT(x.rotation == weight.rotation, "linear",
                "activations rotated by blocks of " + std::to_string(weight.rotation.block),
                "by " + std::to_string(x.rotation.block));
  const base::Range mine = team.slice(panels.size());
  task.x_stride = x.stride;
  task.panels = weight.panels.view().data;
  task.x_scale_stride = x.num_scales();
  if (!weight.scales.empty()) {
    task.scales = weight.scales.view().data;
    task.scale_stride = weight.scales.shape()[1];
  }
  if (!weight.column_sums.empty()) task.column_sums = weight.column_sums.as<std::int32_t>();
  task.bias = weight.bias.empty() ? nullptr : weight.bias.as<float>();
  task.in = weight.in;
  task.out = weight.out;
  task.scale_inputs = spec(weight.format).scale_inputs;
  task.first_panel = panels.begin + mine.begin;
  task.end_panel = panels.begin + mine.end;
  float* const y = task.y;
  const std::int64_t most = std::min(kBlockRows, rows.size());
  task.scratch = scratch(linear_scratch_floats(most) + most * wide_row_inputs(x.width));
  for (std::int64_t first = rows.begin; first < rows.end; first += kBlockRows) {
    task.x = x.row(first);
    if (!x.scales.empty()) task.x_scales = x.scales.as<float>() + first * x.num_scales();
    task.rows = std::min(kBlockRows, rows.end - first);
    if (added != nullptr) task.added.x = added->row(first);
    task.y = y + (first - rows.begin) * task.y_stride;
    dispatch(weight.format, task);
  }
}

}  // namespace

void linear(base::Team& team, const Activations& x, const PackedLinear& weight, base::Range rows, bool accumulate,
            float* y) {
  linear_into(team, x, weight, rows, accumulate, y, weight.out);
}

base::Range linear_share(const base::Team& team, std::int64_t out) {
  const base::Range panels = team.slice(ceil_div(out, kPanelColumns));
  return {panels.begin * kPanelColumns, std::min(out, panels.end * kPanelColumns)};
}

void linear_into(base::Team& team, const Activations& x, const PackedLinear& weight, base::Range rows, bool accumulate,
                 float* y, std::int64_t y_stride) {
  LinearTask task;
  task.y = y + rows.begin * y_stride;
  task.y_stride = y_stride;
  task.accumulate = accumulate;
  multiply(team, x, weight, rows, {0, ceil_div(weight.out, kPanelColumns)}, task);
}

namespace {

base::Range panels_of(const PackedLinear& weight, base::Range columns, const char* where) {
  check_range(columns, weight.out, where);
  QRL_INVARIANT(columns.begin % kPanelColumns == 0 && (columns.end % kPanelColumns == 0 || columns.end == weight.out),
                where, "whole panels", "columns from " + std::to_string(columns.begin));
  return {columns.begin / kPanelColumns, ceil_div(columns.end, kPanelColumns)};
}

AddedTask task_of(const AddedProduct& added, base::Range rows, base::Range columns) {
  const PackedLinear& weight = added.weight;
  check_range(rows, added.x.max_rows(), "added product");
  (void)panels_of(weight, {columns.begin - added.first_column, columns.end - added.first_column}, "added product");
  QRL_INVARIANT((weight.format == Format::bf16 || weight.format == Format::f32) && added.x.format == weight.format &&
                    added.x.width == weight.in && added.first_column % kPanelColumns == 0,
                "added product", "bf16 or fp32 of its own width, from the start of a panel",
                std::string(name(weight.format)) + " at column " + std::to_string(added.first_column));
  return {nullptr,   added.x.stride,     weight.panels.view().data,
          weight.in, added.first_column, weight.format == Format::bf16};
}

/// Computes linear_into_columns with `added` for kernels that do not support LinearTask::added. Sums both products in
/// scratch memory, then writes y.
void multiply_in_turn(base::Team& team, const Activations& x, const PackedLinear& weight, base::Range rows,
                      base::Range panels, const LinearTask& task, const AddedProduct& added) {
  constexpr std::int64_t kPanels = 2;
  thread_local base::Buffer memory;
  float* sums = grown(memory, kBlockRows * kPanels * kPanelColumns);
  base::Team alone = base::Team::solo();
  const base::Range mine = team.slice(panels.size());
  for (std::int64_t p = panels.begin + mine.begin; p < panels.begin + mine.end; p += kPanels) {
    const base::Range some{p, std::min(p + kPanels, panels.begin + mine.end)};
    const base::Range columns{some.begin * kPanelColumns, std::min(some.end * kPanelColumns, weight.out)};
    const std::int64_t own = columns.begin - added.first_column;
    for (std::int64_t first = rows.begin; first < rows.end; first += kBlockRows) {
      const base::Range block{first, std::min(first + kBlockRows, rows.end)};
      LinearTask part;
      part.y_stride = columns.size();
      part.y = sums - columns.begin;
      multiply(alone, x, weight, block, some, part);
      part.accumulate = true;
      part.y = sums - own;
      multiply(alone, added.x, added.weight, block,
               {own / kPanelColumns, ceil_div(own + columns.size(), kPanelColumns)}, part);
      for (std::int64_t row = 0; row < block.size(); ++row) {
        float* y = task.y + (first - rows.begin + row) * task.y_stride + columns.begin;
        const float* from = sums + row * columns.size();
        for (std::int64_t i = 0; i < columns.size(); ++i) y[i] = task.accumulate ? y[i] + from[i] : from[i];
      }
    }
  }
}

}  // namespace

void linear_into_columns(base::Team& team, const Activations& x, const PackedLinear& weight, base::Range rows,
                         base::Range columns, bool accumulate, float* y, std::int64_t y_stride,
                         const AddedProduct* added) {
  LinearTask task;
  task.y = y + rows.begin * y_stride;
  task.y_stride = y_stride;
  task.accumulate = accumulate;
  const base::Range panels = panels_of(weight, columns, "linear_into_columns");
  if (added == nullptr) return multiply(team, x, weight, rows, panels, task);
  task.added = task_of(*added, rows, columns);
  if (kernels().adds_products) multiply(team, x, weight, rows, panels, task, &added->x);
  else multiply_in_turn(team, x, weight, rows, panels, task, *added);
}

void linear_columns(base::Team& team, const Activations& x, const PackedLinear& weight, base::Range rows,
                    base::Range columns, float* y) {
  LinearTask task;
  task.y = y - columns.begin;
  task.y_stride = columns.size();
  multiply(team, x, weight, rows, panels_of(weight, columns, "linear_columns"), task);
}

}  // namespace qrl::ops
