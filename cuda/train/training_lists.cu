// Gathers and sums rows by lists, without the sort of LibTorch's deterministic index operations.
#include "cuda/train/number_segments.cuh"
#include "cuda/train/training_kernels.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

constexpr int kThreads = 128;

template <int kSize>
QRL_KERNEL void sum_rows_kernel(RowListsTask task) {
  wait_for_kernel_before();
  const std::int64_t list = block_x(), pair = block_y();
  const std::int64_t begin = task.starts != nullptr ? task.starts[list] : list;
  const std::int64_t end = task.starts != nullptr ? task.starts[list + 1] : list + 1;
  const std::int64_t to_row = task.to_rows != nullptr ? task.to_rows[list] : list;
  const ReadRows from = pair == 0 ? task.from[0] : task.from[1];  // constant indices keep `from` and `to` in registers
  const WrittenRows to = pair == 0 ? task.to[0] : task.to[1];
  for (std::int64_t i = kSize * thread_idx(); i < task.width; i += kSize * kThreads) {
    float sum[kSize] = {};
    if (task.adds) {
      const ReadRows held{to.values, to.stride, to.is_f32};
      Vector<kSize>::load(held, to_row * to.stride + i).widen(to.is_f32, sum);
    }
    for (std::int64_t j = begin; j < end; ++j) {
      const std::int64_t row = task.rows != nullptr ? task.rows[j] : j;
      float x[kSize];
      Vector<kSize>::load(from, row * from.stride + i).widen(from.is_f32, x);
#pragma unroll
      for (int e = 0; e < kSize; ++e) sum[e] += x[e];
    }
    Vector<kSize>::store(to, to_row * to.stride + i, sum);
  }
}

}  // namespace

void sum_rows(const RowListsTask& task, const Stream& stream) {
  if (task.num_lists == 0) return;
  const bool has_pair = task.from[1].values != nullptr;
  bool words = task.width % 8 == 0 && has_words(task.from[0]) && has_words(task.to[0]);
  if (has_pair) words = words && has_words(task.from[1]) && has_words(task.to[1]);
  launch(words ? sum_rows_kernel<8> : sum_rows_kernel<1>, {task.num_lists, has_pair ? 2 : 1}, kThreads, 0, stream,
         task);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
