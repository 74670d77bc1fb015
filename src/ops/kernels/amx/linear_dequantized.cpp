// Implements the matmuls of e4m3 and int4 weights with AMX. For many rows, dequantizes a panel into L2 and multiplies
// it in tiles. For one or two rows, dequantizes in registers and adds in the tiles' order (tiles.h). Results with int8
// activations equal the other paths' bitwise.
#include "ops/kernels/linear_dequantized.h"

#include "ops/kernels/amx/tiles.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

namespace {

/// Maximum number of rows for which int4_int8 uses the AVX-512 kernel.
constexpr std::int64_t kRowsByVectors = 4;
/// Inputs of int8 that one tile step multiplies. Groups with fewer inputs per scale use the AVX-512 kernel.
constexpr std::int64_t kInt8StepInputs = 4 * kTile;

template <int kInputs>
struct Products {
  using Unit = Bf16Tiles;
};
template <>
struct Products<Int8Tiles::kInputs> {
  using Unit = Int8Tiles;
};
template <class F>
using UnitOf = typename Products<F::kGroup>::Unit;

constexpr std::int64_t steps_of(std::int64_t inputs, int of_word) {
  return (words_of(inputs, of_word) + kTile - 1) / kTile;
}

/// Describes a block of the output. `scaled` holds the block's scaled sums so far, [rows, kBlock] with row stride
/// kPanel.
struct Block {
  std::int64_t row, rows, column;
  float* scaled;
};

/// Scales a chunk's sums and adds them to block.scaled, a few rows during each step of the next chunk.
template <class F>
class Scaling {
 public:
  using Sum = typename UnitOf<F>::Sum;
  Scaling(const LinearTask& task, const Block& block)
      : task_(task),
        block_(block),
        rows_at_once_(F::kScaledChunks ? kBlock / steps_of(task.scale_inputs, F::kGroup) : kBlock / kFewestSteps) {}

  std::int32_t* sums() { return sums_[turn_]; }
  void begin(const Chunk& chunk) {
    finish();
    from_ = sums_[turn_];
    turn_ = 1 - turn_;
    chunk_ = chunk;
    left_ = block_.rows;
    scales_[0] = F::weight_scale(task_, chunk.segment, block_.column);
    scales_[1] = F::weight_scale(task_, chunk.segment, block_.column + kLanes);
  }
  void some() { add(left_ < rows_at_once_ ? left_ : rows_at_once_); }
  void finish() { add(left_); }

 private:
  static constexpr std::int64_t kFewestSteps = 4;  ///< of a chunk that is a whole segment

  void add(std::int64_t count) {
    for (std::int64_t r = block_.rows - left_; count > 0; ++r, --count, --left_) {
      float* scaled = block_.scaled + r * kPanel;
      for (int v = 0; v < 2; ++v, scaled += kLanes) {
        const VecF scale = scale_of_segment<F>(task_, block_.row + r, chunk_.segment, scales_[v]);
        const VecF sum = F::number((Sum)load_words(from_ + r * kBlock + v * kLanes));
        const bool nothing_scaled = !F::kScaledChunks || chunk_.begin == 0;
        store(scaled, fma(sum, scale, nothing_scaled ? VecF{} : load(scaled, All{})), All{});
      }
    }
  }

  const LinearTask& task_;
  const Block& block_;
  std::int64_t rows_at_once_;  ///< rows scaled per step; one chunk's steps cover all rows of a block
  alignas(64) std::int32_t sums_[2][kBlock * kBlock];
  int turn_ = 0;
  const std::int32_t* from_ = nullptr;
  std::int64_t left_ = 0;
  Chunk chunk_{};
  VecF scales_[2];
};

/// Adds to a block the products of inputs [begin, end), whose dequantized weights are in `words`. `open` carries
/// unscaled sums to the next segment and has the layout of block.scaled.
template <class F>
void add_segment(const LinearTask& task, Tiles& tiles, const Block& block, std::int64_t begin, std::int64_t end,
                 const std::int32_t* words, float* open, NextPanel& next) {
  using Unit = UnitOf<F>;
  const std::int64_t row_bytes = task.x_stride * static_cast<std::int64_t>(sizeof(typename F::Element));
  const std::byte* x = static_cast<const std::byte*>(task.x) + block.row * row_bytes;
  tiles.set_rows(block.rows);
  Scaling<F> scaling(task, block);
  for_chunks<F>(task, begin, end, [&](const Chunk& chunk) {
    const std::byte* first = x + chunk.begin * static_cast<std::int64_t>(sizeof(typename F::Element));
    const LeftBlock rows{first, first + kTile * row_bytes, row_bytes, kTileRowBytes};
    const auto* panel = reinterpret_cast<const std::byte*>(words + (chunk.begin - begin) / F::kGroup * kPanel);
    if (chunk.first) clear_sums();
    else load_sums(tiles, open, kPanelRowBytes);
    add_products<Unit>(tiles, rows, {panel}, steps_of(chunk.end - chunk.begin, F::kGroup), [&] {
      next();
      scaling.some();
    });
    if (!chunk.last) return store_sums(tiles, open, kPanelRowBytes);
    store_sums(tiles, scaling.sums(), kBlock * 4);
    scaling.begin(chunk);
  });
  scaling.finish();
}

template <class F>
void linear(const LinearTask& task) {
  constexpr std::int64_t kColumns = 2 * kPanel;
  const std::int64_t num_stored = words_of(task.in, F::Values::kInputs);
  const std::int64_t blocks = (task.rows + kBlock - 1) / kBlock * (kPanel / kBlock);
  auto* words = reinterpret_cast<std::int32_t*>(task.scratch);
  float* const open = task.scratch + kLinearScratchInputs / F::kGroup * kPanel;
  float* const scaled = open + task.rows * kPanel;
  static_assert(linear_scratch_floats(1) - linear_scratch_floats(0) == kColumns);
  Tiles tiles;
  for (std::int64_t p = task.first_panel; p < task.end_panel; ++p) {
    const std::int32_t* panel = panel_at<F>(task, p * kPanel);
    NextPanel next(reinterpret_cast<const std::byte*>(panel + num_stored * kPanel), num_stored * kPanelRowBytes,
                   blocks * steps_of(task.in, F::kGroup));
    for (std::int64_t begin = 0; begin < task.in; begin += kLinearScratchInputs) {
      const std::int64_t end = begin + kLinearScratchInputs < task.in ? begin + kLinearScratchInputs : task.in;
      const std::int64_t count = words_of(end - begin, F::Values::kInputs),
                         dequantized = count * F::Values::kInputs / F::kGroup;
      const std::int64_t all = steps_of(end - begin, F::kGroup) * kTile;
      dequantize<F>(panel + begin / F::Values::kInputs * kPanel, count, words);
      if (dequantized < all)
        __builtin_memset(words + dequantized * kPanel, 0,
                         static_cast<std::size_t>((all - dequantized) * kPanelRowBytes));
      for (std::int64_t offset = 0; offset < kPanel && p * kPanel + offset < task.out; offset += kBlock) {
        for (std::int64_t row = 0; row < task.rows; row += kBlock) {
          const std::int64_t at = row * kPanel + offset;
          const Block block{row, task.rows - row < kBlock ? task.rows - row : kBlock, p * kPanel + offset, scaled + at};
          add_segment<F>(task, tiles, block, begin, end, words + offset, open + at, next);
          if (end < task.in) continue;
          for (std::int64_t r = 0; r < block.rows; ++r) {
            for (int v = 0; v < kBlock; v += kLanes) {
              const VecF sum = load(block.scaled + r * kPanel + v, All{});
              write(task, scaled_by_row<F>(task, sum, row + r), nullptr, row + r, block.column + v);
            }
          }
        }
      }
    }
  }
}

/// Adds the products of one tile step to the sums of Rows rows and a panel's columns, in the order of Bf16Tiles.
template <class F, int Rows>
void add_step(const std::int32_t* stored, std::int64_t num_stored, const float* inputs, std::int64_t stride,
              VecF (&sums)[Rows][kPanel / kLanes]) {
  constexpr int kVectors = kPanel / kLanes;
  VecF even[Rows][kVectors] = {}, odd[Rows][kVectors] = {};
  for (std::int64_t word = 0; word < num_stored; ++word, stored += kPanel) {
    for (int step = 0; step < F::Values::kSteps; step += F::Values::kAtOnce) {
      VecI dequantized[kVectors][F::Values::kAtOnce];
      for (int v = 0; v < kVectors; ++v) F::Values::dequantize(load_words(stored + v * kLanes), step, dequantized[v]);
      for (int i = 0; i < F::Values::kAtOnce; ++i, inputs += F::kGroup) {
        for (int v = 0; v < kVectors; ++v) {
          const VecF first = float_of_bits(dequantized[v][i] << 16),
                     second = float_of_bits(dequantized[v][i] & ~0xffff);
          for (int r = 0; r < Rows; ++r) {
            even[r][v] = fma(splat(inputs[r * stride]), first, even[r][v]);
            odd[r][v] = fma(splat(inputs[r * stride + 1]), second, odd[r][v]);
          }
        }
      }
    }
  }
  for (int r = 0; r < Rows; ++r)
    for (int v = 0; v < kVectors; ++v) sums[r][v] = sums[r][v] + (even[r][v] + odd[r][v]);
}

template <class F, int Rows>
void dequantized_in_registers(const LinearTask& task) {
  constexpr int kVectors = kPanel / kLanes;
  constexpr std::int64_t kStored = kTile * F::kGroup / F::Values::kInputs;
  const std::int64_t stride = task.x_stride;
  float* const inputs = task.scratch;
  for (std::int64_t i = 0; i < Rows * stride; i += kLanes)
    store(inputs + i, load(static_cast<const std::uint16_t*>(task.x) + i, All{}), All{});
  for (std::int64_t p = task.first_panel; p < task.end_panel; ++p) {
    const std::int32_t* panel = panel_at<F>(task, p * kPanel);
    VecF scaled[Rows][kVectors];
    for_chunks<F>(task, 0, task.in, [&](const Chunk& chunk) {
      VecF sums[Rows][kVectors] = {};
      const std::int64_t end = words_of(chunk.end, F::Values::kInputs);
      for (std::int64_t word = chunk.begin / F::Values::kInputs; word < end; word += kStored) {
        const std::int64_t count = end - word < kStored ? end - word : kStored;
        add_step<F>(panel + word * kPanel, count, inputs + word * F::Values::kInputs, stride, sums);
      }
      for (int v = 0; v < kVectors; ++v) {
        const VecF weight_scale = F::weight_scale(task, chunk.segment, p * kPanel + v * kLanes);
        for (int r = 0; r < Rows; ++r) {
          const VecF scale = scale_of_segment<F>(task, r, chunk.segment, weight_scale);
          scaled[r][v] = fma(sums[r][v], scale, chunk.begin == 0 ? VecF{} : scaled[r][v]);
        }
      }
    });
    for (int r = 0; r < Rows; ++r)
      for (int v = 0; v < kVectors; ++v)
        write(task, scaled_by_row<F>(task, scaled[r][v], r), nullptr, r, p * kPanel + v * kLanes);
  }
}

template <class F>
void linear_bf16_inputs(const LinearTask& task) {
  const bool fits = task.rows * task.x_stride <= kLinearScratchInputs / F::kGroup * kPanel;
  if (task.rows == 1 && fits) dequantized_in_registers<F, 1>(task);
  else if (task.rows == 2 && fits) dequantized_in_registers<F, 2>(task);
  else linear<F>(task);
}

}  // namespace

void linear_fp8(const LinearTask& task) { linear_bf16_inputs<Fp8>(task); }
void linear_fp8_block(const LinearTask& task) { linear_bf16_inputs<Fp8Block>(task); }
void linear_int4(const LinearTask& task) { linear_bf16_inputs<Int4>(task); }
void linear_int4_int8(const LinearTask& task) {
  if (task.rows <= kRowsByVectors || task.scale_inputs < kInt8StepInputs) avx512::kKernels.linear_int4_int8(task);
  else linear<Int4Int8>(task);
}

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
