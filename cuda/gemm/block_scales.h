#pragma once

#include <cstddef>
#include <functional>

#include "cuda/gemm/gemm_plan.h"
#include "cuda/runtime/operands.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Describes an fp8_block128 GEMM. x_scales and w_scales are in cuBLASLt's order.
struct BlockScaledTask {
  GemmTask gemm;          ///< num_rows: a multiple of kBlockScaledMultiple
  const float* x_scales;  ///< [width / 128, num_rows]
  const float* w_scales;  ///< [rows / 128, width / 128 padded to 4]
};
/// Multiple to which scales are padded, because cuBLASLt reads units of 16 bytes.
inline constexpr std::int64_t kBlockScaledMultiple = 4;

/// Returns the number of a matrix's scales in cuBLASLt's order.
inline std::int64_t num_arranged_scales(const MatrixLayout& at) {
  return ceil_div(at.rows, kInputChunk) * round_up(at.width / kInputChunk, kBlockScaledMultiple);
}
/// Writes the scales of x, [num_rows, width / 128], in cuBLASLt's order.
struct ArrangeRowScalesTask {
  const float* scales;
  std::int64_t num_rows, num_chunks;
  float* to;
};
void arrange_row_scales(const ArrangeRowScalesTask& task, const Stream& stream);
/// Writes the scales of W, num_arranged_scales(w.at) numbers, in cuBLASLt's order. Pads them with 0.
struct ArrangeWeightScalesTask {
  DeviceMatrix w;
  float* to;
};
void arrange_weight_scales(const ArrangeWeightScalesTask& task, const Stream& stream);

/// Runs block-scaled GEMMs, on one stream at a time.
class BlockScaledGemms {
 public:
  /// Returns false, and computes nothing, if the library refuses the GEMM.
  using ByLibrary = std::function<bool(const BlockScaledTask&)>;
  using ByOther = std::function<void(const GemmTask&, GemmKernel)>;

  explicit BlockScaledGemms(std::int64_t rows_at_once = 4096) : rows_at_once_(rows_at_once) {}

  void reserve(const DeviceMatrix& w);
  void set_fixed(bool is_fixed) { may_move_.is_recorded = is_fixed; }

  /// Calls `by_library` for up to rows_at_once rows at a time, and `by_other` with `streamed` for the last num_rows % 4
  /// rows. Reads the weights' scales from task.w.block_scales. If the library refuses, calls `by_other` for all rows
  /// that are left, with the kernel that choose_gemm names without block scales.
  void multiply(const GemmTask& task, const ByLibrary& by_library, const ByOther& by_other, const Stream& stream);

 private:
  void fit(const DeviceMatrix& w);

  std::int64_t rows_at_once_;
  MayMove may_move_;
  Memory x_scales_;
};

}  // namespace qrl::cuda::QRL_CUDA_TARGET
