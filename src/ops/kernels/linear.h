#pragma once

#include "ops/kernels/dot.h"
#include "ops/kernels/kernels.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

inline constexpr int kPanel = 64;  // equals ops::kPanelColumns

#if defined(QRL_ISA_AVX512)
inline constexpr int kTileRows = 6, kTileVectors = 4;  // 24 of 32 registers hold sums
inline constexpr int kSingleRowVectors = 4;
#else
inline constexpr int kTileRows = 4, kTileVectors = 2;  // 8 of 16 registers hold sums
inline constexpr int kSingleRowVectors = 8;            // more sums, for longer contiguous reads of the panel
#endif

constexpr std::int64_t kLine = 64;

template <int Most, class Body>
inline void with_rows(std::int64_t count, std::int64_t row, const Body& body) {
  if constexpr (Most > 0) {
    if (count == Most) body.template operator()<Most>(row);
    else with_rows<Most - 1>(count, row, body);
  }
}

/// Splits rows into tiles of nearly equal height, at most Most rows each.
template <int Most = kTileRows, class Body>
inline void for_row_tiles(std::int64_t rows, const Body& body) {
  const std::int64_t count = (rows + Most - 1) / Most;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = rows * i / count;
    with_rows<Most>(rows * (i + 1) / count - row, row, body);
  }
}

template <class Lanes>
inline void write_lanes(const LinearTask& task, VecF value, const VecF* added, std::int64_t row, std::int64_t column,
                        Lanes lanes) {
  if (task.bias != nullptr) value = value + load(task.bias + column, lanes);
  if (added != nullptr) value = value + *added;
  float* y = task.y + row * task.y_stride + column;
  if (task.accumulate) value = load(y, lanes) + value;
  store(y, value, lanes);
}

/// Adds the bias, the added product and the residual to a vector of one row's sums. Stores only columns below task.out.
inline void write(const LinearTask& task, VecF value, const VecF* added, std::int64_t row, std::int64_t column) {
  if (column + kLanes <= task.out) write_lanes(task, value, added, row, column, All{});
  else if (column < task.out) write_lanes(task, value, added, row, column, First{static_cast<int>(task.out - column)});
}

/// Prefetches this row tile's share of the added product's next panel.
template <int Rows>
inline void ask_for_next(const LinearTask& task, std::int64_t row, const void* next, std::int64_t groups) {
  const std::int64_t lines = groups * (kPanel * 4 / kLine), last = lines * (row + Rows) / task.rows;
  for (std::int64_t line = lines * row / task.rows; line < last; ++line)
    __builtin_prefetch(static_cast<const char*>(next) + line * kLine, 0, 2);
}

/// Adds the product of task.added to a tile and writes the tile. Sums this product in the order of a separate matmul.
/// Works row by row, because the tile's sums occupy the registers.
template <class Dot, int Rows, int Vectors, class Value>
inline void write_with_added(const LinearTask& task, std::int64_t row, std::int64_t column, const Value& value) {
  using Element = typename Dot::Element;
  constexpr int kGroup = Dot::kGroup;
  const AddedTask& added = task.added;
  const std::int64_t groups = (added.in + kGroup - 1) / kGroup, own = column - added.first_column;
  const auto* panel = static_cast<const Element*>(added.panels) + own / kPanel * kPanel * groups * kGroup;
  ask_for_next<Rows>(task, row, panel + kPanel * groups * kGroup, groups);
  for (int r = 0; r < Rows; ++r) {
    const auto* x = static_cast<const Element*>(added.x) + (row + r) * added.x_stride;
    const auto* w = panel + own % kPanel * kGroup;
    VecF sums[Vectors];
    for (int v = 0; v < Vectors; ++v) sums[v] = VecF{};
    for (std::int64_t group = 0; group < groups; ++group, w += kPanel * kGroup, x += kGroup) {
      const typename Dot::Input input = Dot::input(x);
      for (int v = 0; v < Vectors; ++v) sums[v] = Dot::dot(sums[v], input, Dot::weights(w + v * kLanes * kGroup));
    }
    for (int v = 0; v < Vectors; ++v) write(task, value(r, v), &sums[v], row + r, column + v * kLanes);
  }
}

/// Writes a tile whose fp32 sums are value(r, v).
template <int Rows, int Vectors, class Value>
inline void write_tile(const LinearTask& task, std::int64_t row, std::int64_t column, const Value& value) {
  if (task.added.x != nullptr) {
    if (task.added.is_bf16) return write_with_added<Bf16Dot, Rows, Vectors>(task, row, column, value);
    return write_with_added<F32Dot, Rows, Vectors>(task, row, column, value);
  }
  for (int r = 0; r < Rows; ++r)
    for (int v = 0; v < Vectors; ++v) write(task, value(r, v), nullptr, row + r, column + v * kLanes);
}

/// Returns the task on rows that Dot::widen wrote behind the scratch memory of dequantized weights.
template <class Dot>
inline LinearTask with_wide_rows(LinearTask task) {
  const std::int64_t width = wide_row_inputs(task.in), stride = width / Dot::kGroup * Dot::kInputStep;
  auto* const wide = reinterpret_cast<typename Dot::Element*>(task.scratch + linear_scratch_floats(task.rows));
  const auto* x = static_cast<const typename Dot::Stored*>(task.x);
  for (std::int64_t row = 0; row < task.rows; ++row) Dot::widen(x + row * task.x_stride, width, wide + row * stride);
  task.x = wide;
  task.x_stride = stride;
  return task;
}

inline VecF scaled_int8(const LinearTask& task, VecI sum, std::int64_t row, std::int64_t column) {
  const auto* scales = static_cast<const float*>(task.scales);
  return __builtin_convertvector(sum, VecF) * (splat(task.x_scales[row]) * load(scales + column, All{}));
}

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
