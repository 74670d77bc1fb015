#pragma once

#include <functional>

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

/// Writes the scales of x and W in cuBLASLt's order. Pads those of W with 0.
struct ArrangeScalesTask {
  QuantizedRows x;
  std::int64_t num_rows;
  DeviceMatrix w;
  float *x_scales, *w_scales;
};
void arrange_scales(const ArrangeScalesTask& task, const Stream& stream);

/// Runs block-scaled GEMMs, on one stream at a time.
class BlockScaledGemms {
 public:
  using ByLibrary = std::function<void(const BlockScaledTask&)>;
  using ByRest = std::function<void(const GemmTask&)>;

  explicit BlockScaledGemms(std::int64_t rows_at_once = 4096) : rows_at_once_(rows_at_once) {}

  void reserve(const DeviceMatrix& w);
  void set_fixed(bool is_fixed) { may_move_.is_recorded = is_fixed; }

  /// Calls `by_library` for up to rows_at_once rows at a time, and `rest` for the last num_rows % 4 rows.
  void multiply(const GemmTask& task, const ByLibrary& by_library, const ByRest& rest, const Stream& stream);

 private:
  void fit(const DeviceMatrix& w);

  std::int64_t rows_at_once_;
  MayMove may_move_;
  Memory x_scales_, w_scales_;
};

}  // namespace qrl::cuda::QRL_CUDA_TARGET
