#include <algorithm>

#include "cuda/gemm/block_scales.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

void BlockScaledGemms::reserve(const DeviceMatrix& w) {
  may_move_.is_reserved = true;
  fit(w);
}

void BlockScaledGemms::fit(const DeviceMatrix& w) {
  constexpr const char* kWhat = "memory of block scales";
  constexpr std::int64_t kFloatBytes = sizeof(float);
  const std::int64_t chunks = w.at.width / kInputChunk,
                     num_weight_scales = ceil_div(w.at.rows, kInputChunk) * round_up(chunks, kBlockScaledMultiple);
  grow(x_scales_, rows_at_once_ * chunks * kFloatBytes, may_move_, kWhat);
  grow(w_scales_, num_weight_scales * kFloatBytes, may_move_, kWhat);
}

void BlockScaledGemms::multiply(const GemmTask& task, const ByLibrary& by_library, const ByRest& rest,
                                const Stream& stream) {
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
    arrange_scales({rows.x, rows.num_rows, rows.w, x_scales_.as<float>(), w_scales_.as<float>()}, stream);
    by_library({rows, x_scales_.as<float>(), w_scales_.as<float>()});
  }
  if (num_whole < task.num_rows) rest(part(num_whole, task.num_rows - num_whole));
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
