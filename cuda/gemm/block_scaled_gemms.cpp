#include <algorithm>
#include <string>

#include "base/error.h"
#include "cuda/gemm/block_scales.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

void BlockScaledGemms::grow(Memory& memory, std::int64_t count) const {
  const std::int64_t num_bytes = count * static_cast<std::int64_t>(sizeof(float)),
                     has_bytes = static_cast<std::int64_t>(memory.num_bytes());
  if (has_bytes >= num_bytes) return;
  QRL_INVARIANT(!is_fixed_ || !is_reserved_ || memory.empty(), "memory of block scales, which recorded ticks name",
                "at most the " + std::to_string(has_bytes) + " bytes reserved at upload", std::to_string(num_bytes));
  memory = Memory();  // not both at once
  memory = Memory(static_cast<std::size_t>(num_bytes));
}

void BlockScaledGemms::reserve(const DeviceMatrix& w) {
  is_reserved_ = true;
  fit(w);
}

void BlockScaledGemms::fit(const DeviceMatrix& w) {
  const std::int64_t chunks = w.at.width / kInputChunk;
  grow(x_scales_, rows_at_once_ * chunks);
  grow(w_scales_, ceil_div(w.at.rows, kInputChunk) * round_up(chunks, kBlockScaledMultiple));
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
