#include "cuda/gemm/block_scales.h"
#include "cuda/runtime/target.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

constexpr int kThreads = 256;

QRL_KERNEL void arrange_scales_kernel(ArrangeScalesTask task) {
  wait_for_kernel_before();
  const auto chunks = static_cast<unsigned>(task.w.at.width / kInputChunk), rows = static_cast<unsigned>(task.num_rows);
  unsigned i = static_cast<unsigned>(block_x()) * kThreads + static_cast<unsigned>(thread_idx());
  if (i < chunks * rows) {
    const unsigned chunk = i / rows, row = i % rows;
    task.x_scales[i] = task.x.scales[row * chunks + chunk];
    return;
  }
  i -= chunks * rows;
  const auto padded_chunks = static_cast<unsigned>(round_up(chunks, kBlockScaledMultiple));
  const unsigned block = i / padded_chunks, chunk = i % padded_chunks;
  if (block * kInputChunk >= task.w.at.rows) return;
  task.w_scales[i] = chunk < chunks ? task.w.scales[chunk * task.w.at.rows + block * kInputChunk] : 0.0F;
}

}  // namespace

void arrange_scales(const ArrangeScalesTask& task, const Stream& stream) {
  const std::int64_t chunks = task.w.at.width / kInputChunk;
  const std::int64_t count =
      chunks * task.num_rows + ceil_div(task.w.at.rows, kInputChunk) * round_up(chunks, kBlockScaledMultiple);
  launch(arrange_scales_kernel, {ceil_div(count, kThreads)}, kThreads, 0, stream, task);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
