// Implements training's matmuls (layouts: matmul.h). A tile of kTileRows rows by kTileVectors vectors stays in
// registers along the depth.
#include "ops/kernels/kernels.h"
#include "ops/kernels/matmul.h"
#include "ops/kernels/matmul_words.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

namespace {

#if defined(QRL_ISA_AVX512)
constexpr int kTileRows = 6, kTileVectors = 4;  // 24 of 32 registers hold sums
#elif defined(QRL_ISA_AVX2)
constexpr int kTileRows = 4, kTileVectors = 2;  // 8 of 16 registers hold sums: a bf16 operand takes two registers
#else
constexpr int kTileRows = 4, kTileVectors = 2;
#endif

template <class Dot, class T>
void pack_right_from(const OperandTile& from, bool transposed, std::int64_t depth, std::int64_t columns,
                     std::int32_t* panel) {
  constexpr int kGroup = Dot::kGroup;
  const std::int64_t groups = groups_of<Dot>(depth);
  if (!transposed) {
    for (std::int64_t group = 0; group < groups; ++group) {
      const RowsOfGroup<Dot, T> rows(from, depth, group);
      prefetch_rows<Dot, T>(from, group * Dot::kGroup + kRowsAhead, depth, columns);
      for (int v = 0; v < kPanelVectors; ++v) {
        const std::int64_t at = v * kLanes;
        store_words(panel + group * kMatmulPanel + at,
                    at < columns ? words_across<Dot, T>(rows.even, rows.odd, at, columns - at) : VecI{});
      }
    }
    return;
  }
  for (std::int64_t group = 0; group < groups; group += kLanes) {
    const std::int64_t first = group * kGroup, inputs = depth - first;
    for (int v = 0; v < kPanelVectors; ++v) {
      VecI words[kLanes];
      for (int l = 0; l < kLanes; ++l) {
        const std::int64_t column = v * kLanes + l;
        const T* row = static_cast<const T*>(from.data) + column * from.stride + first;
        if (column >= columns) words[l] = VecI{};
        else if (inputs >= kLanes * kGroup) words[l] = Words<Dot, T>::along(row);
        else words[l] = Words<Dot, T>::along(Padded<T, kLanes * kGroup>(row, inputs).values);
      }
      transpose(words);
      for (std::int64_t l = 0; l < kLanes && group + l < groups; ++l)
        store_words(panel + (group + l) * kMatmulPanel + v * kLanes, words[l]);
    }
  }
}

template <class Dot>
void pack_right(const OperandTile& from, bool transposed, std::int64_t depth, std::int64_t columns, void* panel) {
  auto* words = static_cast<std::int32_t*>(panel);
  if (from.is_bf16) pack_right_from<Dot, std::uint16_t>(from, transposed, depth, columns, words);
  else pack_right_from<Dot, float>(from, transposed, depth, columns, words);
}

template <class Dot, class T>
void pack_left_from(const OperandTile& from, std::int64_t depth, std::int64_t rows, std::int32_t* strips) {
  // Packs kGroupsAtOnce groups at a time, so that a strip's cache lines fill up while they are in cache.
  constexpr std::int64_t kGroupsAtOnce = 16, kRowsAtOnce = 192 + kLanes;
  static_assert(192 % kTileRows == 0 && 192 % kLanes == 0);
  const std::int64_t groups = groups_of<Dot>(depth);
  std::int32_t staged[kGroupsAtOnce][kRowsAtOnce];
  for (std::int64_t begin = 0; begin < groups; begin += kGroupsAtOnce) {
    const std::int64_t count = groups - begin < kGroupsAtOnce ? groups - begin : kGroupsAtOnce;
    for (std::int64_t first = 0; first < rows; first += 192) {
      const std::int64_t here = rows - first < 192 ? rows - first : 192;
      for (std::int64_t g = 0; g < count; ++g) {
        const RowsOfGroup<Dot, T> of(from, depth, begin + g);
        prefetch_rows<Dot, T>({static_cast<const T*>(from.data) + first, from.is_bf16, from.stride},
                              (begin + g) * Dot::kGroup + kRowsAhead, depth, here);
        std::int64_t at = 0;
        for (; at < here; at += kLanes)
          store_words(staged[g] + at, words_across<Dot, T>(of.even, of.odd, first + at, here - at));
        store_words(staged[g] + at, VecI{});
      }
      for (std::int64_t row = 0; row < here; row += kTileRows) {
        std::int32_t* to = strips + ((first + row) / kTileRows * groups + begin) * kTileRows;
        for (std::int64_t g = 0; g < count; ++g, to += kTileRows)
          __builtin_memcpy(to, staged[g] + row, kTileRows * sizeof(std::int32_t));
      }
    }
  }
}

template <class Dot>
void pack_left(const OperandTile& from, std::int64_t depth, std::int64_t rows, void* strips) {
  auto* words = static_cast<std::int32_t*>(strips);
  if (from.is_bf16) pack_left_from<Dot, std::uint16_t>(from, depth, rows, words);
  else pack_left_from<Dot, float>(from, depth, rows, words);
}

/// Packs rows of bf16 numbers into strips of fp32 numbers.
void pack_rows_apart(const OperandTile& from, std::int64_t depth, std::int64_t rows, void* strips) {
  const std::int64_t groups = groups_of<Bf16ByFmaDot>(depth);
  for (std::int64_t row = 0; row < rows; row += kTileRows) {
    float* strip = static_cast<float*>(strips) + row * groups;
    const auto* first = static_cast<const std::uint16_t*>(from.data) + row * from.stride;
    for (std::int64_t group = 0; group < groups; group += kLanes) {
      VecI words[kLanes] = {};
      for (std::int64_t r = 0; r < kTileRows && row + r < rows; ++r) {
        const std::uint16_t* at = first + r * from.stride + group;
        using Along = Words<Bf16ByFmaDot, std::uint16_t>;
        if (depth - group >= kLanes) words[r] = Along::along(at);
        else words[r] = Along::along(Padded<std::uint16_t, kLanes>(at, depth - group).values);
      }
      transpose(words);
      for (std::int64_t l = 0; l < kLanes && group + l < groups; ++l)
        store(strip + (group + l) * kTileRows, float_of_bits(words[l]), First{kTileRows});
    }
  }
}

/// A tile's left rows: element (r, group) is at first[r · row + group · step].
template <class Dot>
struct LeftRows {
  const typename Dot::Element* first;
  std::int64_t row, step;
};

template <class Dot, int Rows, int Vectors>
void tile(const MatmulTiles& task, LeftRows<Dot> left, std::int64_t row, std::int64_t column) {
  constexpr int kGroup = Dot::kGroup;
  const auto* right = static_cast<const typename Dot::Element*>(task.panel) + column * kGroup;
  float* sums_at = task.sums + row * kMatmulPanel + column;
  VecF sums[Rows][Vectors];
  for (int r = 0; r < Rows; ++r) {
    for (int v = 0; v < Vectors; ++v)
      sums[r][v] = task.first ? VecF{} : load(sums_at + r * kMatmulPanel + v * kLanes, All{});
  }
  const auto add = [&](const auto* x, std::int64_t stride) {
    typename Dot::Weights weights[Vectors];
    for (int v = 0; v < Vectors; ++v) weights[v] = Dot::weights(right + v * kLanes * kGroup);
    for (int r = 0; r < Rows; ++r) {
      const typename Dot::Input input = Dot::input(x + r * stride);
      for (int v = 0; v < Vectors; ++v) sums[r][v] = Dot::dot(sums[r][v], input, weights[v]);
    }
  };
  const std::int64_t whole = task.left_stride == 0 ? groups_of<Dot>(task.depth) : task.depth / kGroup;
  const auto* ahead = reinterpret_cast<const char*>(left.first) +
                      (task.left_stride == 0 ? whole * 4 * Rows : task.left_stride * Rows * 4 / kGroup);
  if (task.last && task.accumulate) {
    const std::int64_t size = task.out.is_bf16 ? 2 : 4;
    for (int r = 0; r < Rows; ++r) {
      const auto* line = static_cast<const char*>(task.out.data) + ((row + r) * task.out_stride + column) * size;
      for (int b = 0; b < Vectors * kLanes * 4; b += 64) __builtin_prefetch(line + b, 1, 2);
    }
  }
  const auto* x = left.first;
  for (std::int64_t group = 0; group < whole; ++group, x += left.step, right += kMatmulPanel * kGroup) {
    __builtin_prefetch(ahead + group * 4 * Rows, 0, 2);
    add(x, left.row);
  }
  if (task.left_stride != 0 && task.depth % kGroup != 0) {  // the last word's second input may lie past the memory
    typename Dot::Element last[Rows * kGroup] = {};
    for (int r = 0; r < Rows; ++r) last[r * kGroup] = x[r * left.row];
    add(last, kGroup);
  }
  if (!task.last) {
    for (int r = 0; r < Rows; ++r) {
      for (int v = 0; v < Vectors; ++v) store(sums_at + r * kMatmulPanel + v * kLanes, sums[r][v], All{});
    }
    return;
  }
  for (int r = 0; r < Rows; ++r) write_row(task, row + r, column, sums[r]);
}

template <class Dot, int Rows>
void tiles_of_rows(const MatmulTiles& task, LeftRows<Dot> left, std::int64_t row) {
  std::int64_t column = 0;
  for (; column + (kTileVectors - 1) * kLanes < task.columns; column += kTileVectors * kLanes)
    tile<Dot, Rows, kTileVectors>(task, left, row, column);
  if constexpr (kTileVectors > 2) {
    for (; column + kLanes < task.columns; column += 2 * kLanes) tile<Dot, Rows, 2>(task, left, row, column);
  }
  for (; column < task.columns; column += kLanes) tile<Dot, Rows, 1>(task, left, row, column);
}

template <class Dot, int Rows>
void last_rows(const MatmulTiles& task, LeftRows<Dot> left, std::int64_t row) {
  if constexpr (Rows > 0) {
    if (task.rows - row == Rows) tiles_of_rows<Dot, Rows>(task, left, row);
    else last_rows<Dot, Rows - 1>(task, left, row);
  }
}

template <class Dot>
void tiles(const MatmulTiles& task) {
  using Element = typename Dot::Element;
  constexpr int kGroup = Dot::kGroup;
  const std::int64_t groups = groups_of<Dot>(task.depth);
  const auto* left = static_cast<const Element*>(task.left);
  const auto rows_at = [&](std::int64_t row) {
    if (task.left_stride != 0) return LeftRows<Dot>{left + row * task.left_stride, task.left_stride, kGroup};
    return LeftRows<Dot>{left + row * groups * kGroup, kGroup, kTileRows * kGroup};
  };
  std::int64_t row = 0;
  for (; row + kTileRows <= task.rows; row += kTileRows) tiles_of_rows<Dot, kTileRows>(task, rows_at(row), row);
  if (row < task.rows) last_rows<Dot, kTileRows - 1>(task, rows_at(row), row);
}

}  // namespace

#if defined(QRL_ISA_AVX512)
const MatmulKernels kBf16Matmul{kTileRows, 2, 1, pack_right<Bf16Dot>, pack_left<Bf16Dot>, tiles<Bf16Dot>};
#endif
const MatmulKernels kBf16MatmulByFma{
    kTileRows, 1, 2, pack_right<Bf16ByFmaDot>, pack_left<Bf16ByFmaDot>, tiles<Bf16ByFmaDot>, pack_rows_apart};
const MatmulKernels kF32Matmul{kTileRows, 1, 1, pack_right<F32Dot>, pack_left<F32Dot>, tiles<F32Dot>};

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
