// What the matmuls of all weight formats share: the size of a tile and the way out of it.
#pragma once

#include "ops/kernels/dot.h"
#include "ops/kernels/kernels.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

inline constexpr int kPanel = 64;  // ops::kPanelColumns

#if defined(QRL_ISA_AVX512)
inline constexpr int kTileRows = 6, kTileVectors = 4;  // 24 of 32 registers accumulate
inline constexpr int kSingleRowVectors = 4;
#else
inline constexpr int kTileRows = 4, kTileVectors = 2;  // 8 of 16
inline constexpr int kSingleRowVectors = 8;            // the same 8, and longer runs of the panels, which come from memory
#endif

constexpr std::int64_t kLine = 64;

/// Calls body.operator()<Rows>(row) for count == Rows, one of 1 … Most.
template <int Most, class Body>
inline void with_rows(std::int64_t count, std::int64_t row, const Body& body) {
  if constexpr (Most > 0) {
    if (count == Most) body.template operator()<Most>(row);
    else with_rows<Most - 1>(count, row, body);
  }
}

/// Cuts rows into tiles of at most Most, none more than a row higher than another.
template <int Most = kTileRows, class Body>
inline void for_row_tiles(std::int64_t rows, const Body& body) {
  const std::int64_t count = (rows + Most - 1) / Most;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = rows * i / count;
    with_rows<Most>(rows * (i + 1) / count - row, row, body);
  }
}

template <class Lanes>
inline void write_lanes(const LinearTask& task, VecF value, std::int64_t row, std::int64_t column, Lanes lanes) {
  if (task.bias != nullptr) value = value + load(task.bias + column, lanes);
  float* y = task.y + row * task.y_stride + column;
  if (task.accumulate) value = load(y, lanes) + value;
  store(y, value, lanes);
}

/// Bias, residual and the store of one row's vector of columns, as many as there are.
inline void write(const LinearTask& task, VecF value, std::int64_t row, std::int64_t column) {
  if (column + kLanes <= task.out) write_lanes(task, value, row, column, All{});
  else if (column < task.out) write_lanes(task, value, row, column, First{static_cast<int>(task.out - column)});
}

/// An exact sum of int8's quantized values under its row's scale and its column's.
inline VecF scaled_int8(const LinearTask& task, VecI sum, std::int64_t row, std::int64_t column) {
  const auto* scales = static_cast<const float*>(task.scales);
  return __builtin_convertvector(sum, VecF) * (splat(task.x_scales[row]) * load(scales + column, All{}));
}

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
