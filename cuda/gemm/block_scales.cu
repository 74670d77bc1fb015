#include "cuda/gemm/block_scales.h"
#include "cuda/runtime/target.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

constexpr int kThreads = 256;

QRL_KERNEL void arrange_row_scales_kernel(ArrangeRowScalesTask task) {
  wait_for_kernel_before();
  const auto chunks = static_cast<unsigned>(task.num_chunks), rows = static_cast<unsigned>(task.num_rows);
  const unsigned i = static_cast<unsigned>(block_x()) * kThreads + static_cast<unsigned>(thread_idx());
  if (i >= chunks * rows) return;
  const unsigned chunk = i / rows, row = i % rows;
  task.to[i] = task.scales[row * chunks + chunk];
}

QRL_KERNEL void arrange_weight_scales_kernel(ArrangeWeightScalesTask task) {
  wait_for_kernel_before();
  const auto chunks = static_cast<unsigned>(task.w.at.width / kInputChunk),
             padded_chunks = static_cast<unsigned>(round_up(chunks, kBlockScaledMultiple));
  const unsigned i = static_cast<unsigned>(block_x()) * kThreads + static_cast<unsigned>(thread_idx());
  const unsigned block = i / padded_chunks, chunk = i % padded_chunks;
  if (block * kInputChunk >= task.w.at.rows) return;
  task.to[i] = chunk < chunks ? task.w.scales[chunk * task.w.at.rows + block * kInputChunk] : 0.0F;
}

}  // namespace

void arrange_row_scales(const ArrangeRowScalesTask& task, const Stream& stream) {
  launch(arrange_row_scales_kernel, {ceil_div(task.num_chunks * task.num_rows, kThreads)}, kThreads, 0, stream, task);
}

void arrange_weight_scales(const ArrangeWeightScalesTask& task, const Stream& stream) {
  launch(arrange_weight_scales_kernel, {ceil_div(num_arranged_scales(task.w.at), kThreads)}, kThreads, 0, stream, task);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
