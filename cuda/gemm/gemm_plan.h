// Owns the choice of a GEMM's kernel and of streamed_gemm's tiles.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "cuda/runtime/layout.h"
#include "quant/format.h"

namespace qrl::cuda {

/// Returns the number of splits of the inputs (split-K). It depends on the matrix alone, because splits determine a
/// row's bits. Aims at two blocks of 64 outputs per multiprocessor of an H100, with at least four chunks per split.
inline constexpr std::int64_t kStreamBlocks = 264, kMaxSplits = 8, kFewestChunks = 4;
inline std::int64_t num_splits(const MatrixLayout& at) {
  const std::int64_t by_outputs = kStreamBlocks / (at.rows / kOutputTile);
  return std::max<std::int64_t>(1, std::min({by_outputs, kMaxSplits, at.width / kInputChunk / kFewestChunks}));
}

/// Describes a block's tile of y.
struct StreamTile {
  int rows, outputs, num_stages;
  friend bool operator==(const StreamTile&, const StreamTile&) = default;
};
inline constexpr StreamTile kStreamTiles[] = {{8, 64, 4}, {16, 64, 4}, {32, 128, 3}, {64, 128, 3}};
/// 16-bit weights need only two stages for the same bytes in flight.
constexpr int num_stages(const StreamTile& tile, int weight_bits) { return weight_bits == 16 ? 2 : tile.num_stages; }

struct StreamBytes {
  int w = 0, x = 0, w_scales = 0, x_scales = 0;  ///< bytes per stage, which has two chunks of 128 inputs
  int sums = 0;                                  ///< bytes per tile
  constexpr int x_at() const { return w; }
  constexpr int w_scales_at() const { return w + x; }
  constexpr int x_scales_at() const { return w + x + w_scales; }
  constexpr int stage() const { return w + x + w_scales + x_scales; }
  /// Returns the bytes of shared memory per block, of which 16 are for flags. With keeps_sums (a block sums all
  /// splits), `sums` has its own memory. Otherwise it reuses the stages' memory.
  constexpr int all(int num_stages, bool keeps_sums) const {
    return num_stages * stage() + (keeps_sums ? sums : 0) + 16;
  }
};
/// num_scales: scales of an output per chunk; 0: none.
constexpr StreamBytes stream_bytes(const StreamTile& tile, int weight_bits, int x_bits, int num_scales,
                                   bool x_chunk_scaled) {
  constexpr int kInputs = 2 * static_cast<int>(kInputChunk), kFloat = 4;
  return {tile.outputs * kInputs * weight_bits / 8,     //
          tile.rows * kInputs * x_bits / 8,             //
          2 * num_scales * tile.outputs * kFloat,       //
          x_chunk_scaled ? 2 * tile.rows * kFloat : 0,  //
          tile.rows * tile.outputs * kFloat};
}
inline StreamBytes stream_bytes(const StreamTile& tile, quant::Format format) {
  const quant::FormatSpec& what = quant::spec(format);
  const int num_scales = what.scale_inputs == 0 ? 0 : static_cast<int>(kInputChunk / what.scale_inputs);
  return stream_bytes(tile, what.weight_bits, what.activations == quant::Element::bf16 ? 16 : 8, num_scales,
                      what.activation_scale_inputs == kInputChunk);
}

struct StreamPlan {
  StreamTile tile{};
  bool splits_apart = false;  ///< true: one block per split, sums added in memory; false: a block sums all splits
  friend bool operator==(const StreamPlan&, const StreamPlan&) = default;
};

/// Size of the memory for the splits' sums, which is used with splits_apart.
inline constexpr std::int64_t kStreamPartialBytes = std::int64_t{32} << 20;
/// Maximum number of tiles with splits_apart. Each tile has a counter.
inline constexpr std::int64_t kStreamCounters = 4096;

struct DeviceLimits {
  std::int64_t shared_bytes = 0;  ///< per block
  std::int64_t num_multiprocessors = 0;
};

/// Returns whether the kernel has a tile. With 8-bit rows and groups smaller than a chunk, tiles of 64 rows would spill
/// registers.
constexpr bool has_tile(const StreamTile& tile, std::int64_t x_bits, std::int64_t scale_inputs) {
  return tile.rows < 64 || x_bits != 8 || scale_inputs == 0 || scale_inputs == kInputChunk;
}

inline bool has_room(const StreamTile& tile, quant::Format format, const DeviceLimits& device) {
  const quant::FormatSpec& what = quant::spec(format);
  if (!has_tile(tile, what.activations == quant::Element::bf16 ? 16 : 8, what.scale_inputs)) return false;
  return stream_bytes(tile, format).all(num_stages(tile, quant::spec(format).weight_bits), true) <= device.shared_bytes;
}
inline std::int64_t num_tiles(const StreamTile& tile, const MatrixLayout& at, std::int64_t num_rows) {
  return ceil_div(at.rows, tile.outputs) * ceil_div(num_rows, tile.rows);
}
inline bool may_part(const StreamTile& tile, quant::Format format, const MatrixLayout& at, std::int64_t num_rows) {
  const std::int64_t tiles = num_tiles(tile, at, num_rows);
  return num_splits(at) > 1 && tiles <= kStreamCounters &&
         num_splits(at) * tiles * stream_bytes(tile, format).sums <= kStreamPartialBytes;
}

/// Chooses the smallest tile that holds all rows. If none does, chooses the largest tile that fits shared memory. Sets
/// splits_apart if may_part() is true and fewer tiles exist than multiprocessors. If the rows fill several tiles, the
/// limit is half the multiprocessors (measured on an H100).
inline StreamPlan plan_stream(quant::Format format, const MatrixLayout& at, std::int64_t num_rows,
                              const DeviceLimits& device) {
  StreamPlan plan{kStreamTiles[0], false};
  for (const StreamTile& tile : kStreamTiles) {
    if (plan.tile.rows >= num_rows) break;
    if (has_room(tile, format, device)) plan.tile = tile;
  }
  const std::int64_t tiles = num_tiles(plan.tile, at, num_rows) * (num_rows > plan.tile.rows ? 2 : 1);
  plan.splits_apart = may_part(plan.tile, format, at, num_rows) && tiles < device.num_multiprocessors;
  return plan;
}

/// Returns the fewest rows for which GEMMs of a format dequantize their operands to bf16; 0: never.
///
/// The numbers are measured on an H100 for a layer of an 8B model.
inline std::int64_t dequantized_rows(quant::Format format) {
  if (format == quant::Format::fp8_block128) return 160;
  return quant::is_int4(format) && quant::spec(format).activations == quant::Element::bf16 ? 96 : 0;
}
/// Maximum number of activation rows dequantized at a time, to limit their memory.
inline constexpr std::int64_t kDequantizedRowsAtOnce = 4096;

/// Names the kernels of choose_gemm.
///
/// bf16 runs on cuBLASLt. On Hopper, formats with one scale per channel and one per token run on CUTLASS for more than
/// 16 rows; fp8 does so only for a bf16 result. Everything else is streamed. Streamed e4m3 sums differ from CUTLASS's
/// in the last bits, so results change above kStreamedFp8Rows rows.
///
/// With row_only_sums, a row's result must not depend on other rows. No library guarantees that for fp32 sums, so
/// CUTLASS runs only int8, with exact int32 sums. CUTLASS and the streamed kernel scale an int32 sum alike: both round
/// it to fp32 and multiply it by the fp32 product of the two scales, without fusing.
///
/// With at least dequantized_rows(format) rows, int4 (with bf16 activations) and fp8_block128 are dequantized to bf16
/// for cuBLASLt.
///
/// block_scaled: cuBLASLt multiplies fp8_block128 directly, for more than kStreamedFp8Rows rows and a bf16 result.
/// row_scaled: on Hopper, cuBLASLt multiplies fp8_tensor and fp8_channel, for more than kCutlassFp8Rows rows and a bf16
/// result.
enum class GemmKernel : std::uint8_t {
  cublaslt,
  block_scaled,
  row_scaled,
  cutlass_int8,
  cutlass_fp8,
  streamed,
  dequantized
};
inline constexpr std::int64_t kStreamedInt8Rows = 16, kStreamedFp8Rows = 16, kCutlassFp8Rows = 128;
inline GemmKernel choose_gemm(quant::Format format, std::int64_t num_rows, bool y_is_f32, bool is_hopper,
                              bool row_only_sums = false, bool block_scales = false) {
  using quant::Format;
  if (format == Format::bf16 && !row_only_sums) return GemmKernel::cublaslt;
  if (format == Format::fp8_block128 && block_scales && num_rows > kStreamedFp8Rows && !y_is_f32 && !row_only_sums)
    return GemmKernel::block_scaled;
  const std::int64_t dequantized_from = dequantized_rows(format);
  if (dequantized_from > 0 && num_rows >= dequantized_from && !row_only_sums) return GemmKernel::dequantized;
  if (!is_hopper) return GemmKernel::streamed;
  if (format == Format::int8 && num_rows > kStreamedInt8Rows) return GemmKernel::cutlass_int8;
  if (y_is_f32 || row_only_sums) return GemmKernel::streamed;
  if ((format == Format::fp8_tensor || format == Format::fp8_channel) && num_rows > kStreamedFp8Rows)
    return num_rows > kCutlassFp8Rows ? GemmKernel::row_scaled : GemmKernel::cutlass_fp8;
  return GemmKernel::streamed;
}

/// Returns the number of rows per tile of CUTLASS's GEMMs: 64 if 128 would leave multiprocessors idle, otherwise 128. A
/// tile has 128 outputs. Timing does not decide, because the two sizes' fp32 sums may differ.
inline std::int64_t cutlass_tile_rows(const MatrixLayout& at, std::int64_t num_rows, std::int64_t num_multiprocessors) {
  const std::int64_t wide_tiles = ceil_div(num_rows, 128) * ceil_div(at.rows, 128);
  return num_rows <= 64 || wide_tiles < num_multiprocessors ? 64 : 128;
}

struct GemmRules {
  bool is_hopper = false, row_only_sums = false;
  bool block_scales = false;  ///< whether cuBLASLt multiplies e4m3 with one scale per 128 inputs
};

struct GemmChoice {
  GemmKernel kernel = GemmKernel::streamed;
  StreamPlan plan{};  ///< for `streamed` only
  friend bool operator==(const GemmChoice&, const GemmChoice&) = default;
};

/// Maximum number of rows for which candidates are measured. For more rows, choose_gemm alone decides.
inline constexpr std::int64_t kSweptRows = 128;

/// Returns a GEMM's candidates, which all compute the same bits. The first is the choice of choose_gemm and
/// plan_stream. The others are streamed plans whose tiles are at least half full, with and without splits_apart. For
/// int8 on Hopper, CUTLASS is also a candidate.
inline std::vector<GemmChoice> gemm_choices(quant::Format format, const MatrixLayout& at, std::int64_t num_rows,
                                            bool y_is_f32, const GemmRules& rules, const DeviceLimits& device) {
  std::vector<GemmChoice> choices(1);
  const GemmKernel rule = choose_gemm(format, num_rows, y_is_f32, rules.is_hopper, rules.row_only_sums,
                                      rules.block_scales && at.has_whole_blocks);
  choices[0].kernel = rule;
  if (rule == GemmKernel::streamed) choices[0].plan = plan_stream(format, at, num_rows, device);
  if ((rule != GemmKernel::streamed && rule != GemmKernel::cutlass_int8) || num_rows > kSweptRows) return choices;
  const auto add = [&](const GemmChoice& choice) {
    if (std::find(choices.begin(), choices.end(), choice) == choices.end()) choices.push_back(choice);
  };
  const auto most_rows = static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(num_rows)));
  for (const StreamTile& tile : kStreamTiles) {
    if (tile.rows > std::max(most_rows, kStreamTiles[0].rows) || !has_room(tile, format, device)) continue;
    add({GemmKernel::streamed, {tile, false}});
    if (may_part(tile, format, at, num_rows)) add({GemmKernel::streamed, {tile, true}});
  }
  if (format == quant::Format::int8 && rules.is_hopper) add({GemmKernel::cutlass_int8, {}});
  return choices;
}

}  // namespace qrl::cuda
