// Multiplies quantized rows by packed panels. A tile of kTileRows rows by kTileVectors vectors stays in registers over
// the whole width. Each output has one accumulator, to which products are added in input order.
#include "ops/kernels/linear.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

namespace {

// A format is a dot product with the accumulator's initial value (`start`) and its conversion to the output (`finish`).

struct F32 : F32Dot {
  static VecF start(const LinearTask&, std::int64_t) { return VecF{}; }
  static VecF finish(const LinearTask&, VecF sum, std::int64_t, std::int64_t) { return sum; }
};

struct Bf16Pairs : Bf16Dot {
  static VecF start(const LinearTask&, std::int64_t) { return VecF{}; }
  static VecF finish(const LinearTask&, VecF sum, std::int64_t, std::int64_t) { return sum; }
};

struct Int8 : Int8DotWideInput {
  static VecI start(const LinearTask& task, std::int64_t column) {
    return kBias == 0 ? VecI{} : (VecI)(-(VecU)load_words(task.column_sums + column));
  }
  static VecF finish(const LinearTask& task, VecI sum, std::int64_t row, std::int64_t column) {
    return scaled_int8(task, sum, row, column);
  }
};

/// Computes a tile of Rows rows by Vectors vectors. Issues Asks prefetches per group of inputs, starting at `ahead`.
template <class Format, int Rows, int Vectors, int Asks>
void tile(const LinearTask& task, std::int64_t row, std::int64_t column, const void* ahead) {
  using Element = typename Format::Element;
  constexpr int kGroup = Format::kGroup;
  const std::int64_t groups = (task.in + kGroup - 1) / kGroup;
  const auto* x = static_cast<const Element*>(task.x) + row * task.x_stride;
  const auto* w = static_cast<const Element*>(task.panels) + (column / kPanel) * kPanel * groups * kGroup +
                  (column % kPanel) * kGroup;
  typename Format::Accumulator sums[Rows][Vectors];
  for (int r = 0; r < Rows; ++r) {
    for (int v = 0; v < Vectors; ++v) sums[r][v] = Format::start(task, column + v * kLanes);
  }
  constexpr std::int64_t kGroupBytes = kPanel * kGroup * static_cast<std::int64_t>(sizeof(Element));
  const auto* asked = static_cast<const char*>(ahead);
  constexpr int kStep = Format::kInputStep;
  for (std::int64_t group = 0; group < groups; ++group, w += kPanel * kGroup, x += kStep, asked += kGroupBytes) {
    for (int i = 0; i < Asks; ++i) __builtin_prefetch(asked + i * kLine, 0, 2);
    typename Format::Weights weights[Vectors];
    for (int v = 0; v < Vectors; ++v) weights[v] = Format::weights(w + v * kLanes * kGroup);
    for (int r = 0; r < Rows; ++r) {
      const typename Format::Input input = Format::input(x + r * task.x_stride);
      for (int v = 0; v < Vectors; ++v) sums[r][v] = Format::dot(sums[r][v], input, weights[v]);
    }
  }
  write_tile<Rows, Vectors>(
      task, row, column, [&](int r, int v) { return Format::finish(task, sums[r][v], row + r, column + v * kLanes); });
}

constexpr std::int64_t kNarrowGroupsAhead = 64;

/// Computes columns [column, end) in narrower, taller tiles, for few columns such as those of a LoRA adapter's A.
template <class Format, int Vectors>
void narrow_tiles(const LinearTask& task, std::int64_t column, std::int64_t end, std::int64_t panel_bytes) {
  if constexpr (Vectors > 1) {
    if (end - column <= Vectors / 2 * kLanes) return narrow_tiles<Format, Vectors / 2>(task, column, end, panel_bytes);
  }
  const auto* panel = static_cast<const char*>(task.panels) + column / kPanel * panel_bytes + column % kPanel * 4;
  constexpr int kHigher = Vectors == 1 ? 3 : 2;
  for_row_tiles<kHigher * kTileRows>(task.rows, [&]<int Rows>(std::int64_t row) {
    tile<Format, Rows, Vectors, Vectors * kLanes * 4 / kLine>(task, row, column,
                                                              panel + kNarrowGroupsAhead * kPanel * 4);
  });
}

/// Gives all tiles nearly equal height, because a tile of one or two rows would wait for weights.
template <class Format, int Asks>
void tiles(const LinearTask& task, std::int64_t begin, std::int64_t end, std::int64_t panel_bytes) {
  constexpr std::int64_t kTileColumns = kTileVectors * kLanes, kAskers = kPanel * 4 / kLine / Asks;
  for (std::int64_t column = begin; column < end; column += kTileColumns) {
    if (end - column <= kTileColumns / 2) return narrow_tiles<Format, kTileVectors / 2>(task, column, end, panel_bytes);
    const auto* next = static_cast<const char*>(task.panels) + (column / kPanel + 1) * panel_bytes;
    std::int64_t asker = column % kPanel / kTileColumns;
    for_row_tiles(task.rows, [&]<int Rows>(std::int64_t row) {
      tile<Format, Rows, kTileVectors, Asks>(task, row, column, next + asker++ % kAskers * Asks * kLine);
    });
  }
}

template <class Format>
void linear(const LinearTask& task) {
  constexpr int kSingleRowColumns = kSingleRowVectors * kLanes;
  const std::int64_t end = task.end_panel * kPanel < task.out ? task.end_panel * kPanel : task.out;
  const std::int64_t begin = task.first_panel * kPanel;
  const std::int64_t panel_bytes = (task.in + Format::kGroup - 1) / Format::kGroup * kPanel * 4;
  if (task.rows == 1) {  // for one row, hardware prefetches the stream of weights
    const auto* panels = static_cast<const char*>(task.panels);
    for (std::int64_t column = begin; column < end; column += kSingleRowColumns)
      tile<Format, 1, kSingleRowVectors, 1>(task, 0, column, panels + column / kPanel * panel_bytes);
  } else if (task.rows > 3 * kTileRows) {
    tiles<Format, 1>(task, begin, end, panel_bytes);
  } else {
    tiles<Format, 2>(task, begin, end, panel_bytes);
  }
}

}  // namespace

void linear_f32(const LinearTask& task) { linear<F32>(task); }
void linear_bf16_pairs(const LinearTask& task) { linear<Bf16Pairs>(task); }
void linear_int8(const LinearTask& task) { linear<Int8>(with_wide_rows<Int8>(task)); }

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
