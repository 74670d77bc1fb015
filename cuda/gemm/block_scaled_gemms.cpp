#include <algorithm>

#include "base/error.h"
#include "cuda/gemm/block_scales.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

void BlockScaledGemms::reserve(const DeviceMatrix& w) {
  may_move_.is_reserved = true;
  fit(w);
}

void BlockScaledGemms::fit(const DeviceMatrix& w) {
  constexpr std::int64_t kFloatBytes = sizeof(float);
  grow(x_scales_, rows_at_once_ * (w.at.width / kInputChunk) * kFloatBytes, may_move_, "memory of block scales");
}

void BlockScaledGemms::multiply(const GemmTask& task, const ByLibrary& by_library, const ByOther& by_other,
                                const Stream& stream) {
  QRL_INVARIANT(task.w.block_scales != nullptr, "block scales", "a matrix with scales in cuBLASLt's order", "none");
  fit(task.w);
  const std::int64_t y_bytes = task.y_stride * (task.y_is_f32 ? 4 : 2);
  const auto part = [&](std::int64_t first, std::int64_t count) {
    GemmTask rows = task;
    rows.num_rows = count;
    rows.x.quantized = static_cast<std::uint8_t*>(task.x.quantized) + first * task.x.stride;
    rows.x.scales = task.x.scales + first * task.x.num_scales();
    rows.y = static_cast<std::uint8_t*>(task.y) + first * y_bytes;
    return rows;
  };
  const std::int64_t num_whole = task.num_rows / kBlockScaledMultiple * kBlockScaledMultiple;
  for (std::int64_t first = 0; first < num_whole; first += rows_at_once_) {
    const GemmTask rows = part(first, std::min(rows_at_once_, num_whole - first));
    arrange_row_scales({rows.x.scales, rows.num_rows, rows.w.at.width / kInputChunk, x_scales_.as<float>()}, stream);
    if (by_library({rows, x_scales_.as<float>(), task.w.block_scales})) continue;
    const GemmTask left = part(first, task.num_rows - first);
    return by_other(left, choose_gemm(task.w.format, left.num_rows, task.y_is_f32, true));
  }
  if (num_whole < task.num_rows) by_other(part(num_whole, task.num_rows - num_whole), GemmKernel::streamed);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
