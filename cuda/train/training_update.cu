#include "cuda/train/number_segments.cuh"
#include "cuda/train/training_kernels.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kRead = 4;  ///< numbers per load

QRL_KERNEL void squares_kernel(SquaresTask task) {
  wait_for_kernel_before();
  auto* exchange = reinterpret_cast<double*>(shared_memory());
  const std::int64_t part = block_x();
  std::int64_t tensor = 0;  // the last tensor that begins at or before this part
  for (std::int64_t above = task.num_tensors; above - tensor > 1;) {
    const std::int64_t middle = (tensor + above) / 2;
    if (task.tensors[middle].first_part <= part) tensor = middle;
    else above = middle;
  }
  const TensorSpan span = task.tensors[tensor];
  const std::int64_t first = (part - span.first_part) * kSquaresPart;
  const std::int64_t count = span.count - first < kSquaresPart ? span.count - first : kSquaresPart;
  const float* values = task.values + span.begin + first;
  double sum = 0;
  for (std::int64_t i = thread_idx(); i < count; i += kThreads) {
    const auto x = static_cast<double>(values[i]);
    sum += x * x;
  }
  sum = block_sum_f64<kWarps>(sum, exchange);
  if (thread_idx() == 0) task.squares[part] = sum;
}

QRL_DEVICE void load_numbers(const float* from, float (&x)[kRead]) {
  const Words words = *reinterpret_cast<const Words*>(from);
#pragma unroll
  for (int i = 0; i < kRead; ++i) x[i] = float_of(words.word[i]);
}
QRL_DEVICE void store_numbers(float* to, const float (&x)[kRead]) {
  Words words;
#pragma unroll
  for (int i = 0; i < kRead; ++i) words.word[i] = bits_of(x[i]);
  *reinterpret_cast<Words*>(to) = words;
}
QRL_DEVICE void load_numbers(const float* from, float (&x)[1]) { x[0] = *from; }
QRL_DEVICE void store_numbers(float* to, const float (&x)[1]) { *to = x[0]; }

template <int kSize>
QRL_KERNEL void adamw_kernel(AdamwTask task) {
  wait_for_kernel_before();
  const std::int64_t at = kSize * (block_x() * kThreads + thread_idx());
  if (at >= task.count) return;
  const float keep = 1.0F - task.lr * task.weight_decay, rate = task.lr * task.first_correction;
  float weight[kSize], gradient[kSize], first[kSize], second[kSize];
  load_numbers(task.gradients + at, gradient);
  load_numbers(task.exp_avg + at, first);
  load_numbers(task.exp_avg_sq + at, second);
  load_numbers(task.weights + at, weight);
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    const float g = gradient[i] * task.gradient_scale;
    first[i] = first[i] * task.beta1 + g * (1.0F - task.beta1);
    second[i] = second[i] * task.beta2 + g * g * (1.0F - task.beta2);
    const float root = sqrtf(second[i] * task.second_correction) + task.eps;
    weight[i] = weight[i] * keep - first[i] * rate / root;
    gradient[i] = 0;
  }
  store_numbers(task.gradients + at, gradient);
  store_numbers(task.exp_avg + at, first);
  store_numbers(task.exp_avg_sq + at, second);
  store_numbers(task.weights + at, weight);
  if (task.copy == nullptr) return;
  if (task.copy_is_f32) {
    store_numbers(static_cast<float*>(task.copy) + at, weight);
    return;
  }
  if constexpr (kSize == kRead) {
    auto* pairs = reinterpret_cast<std::uint32_t*>(static_cast<std::uint16_t*>(task.copy) + at);
    pairs[0] = bf16x2_of(weight[0], weight[1]);
    pairs[1] = bf16x2_of(weight[2], weight[3]);
  } else {
    static_cast<std::uint16_t*>(task.copy)[at] = bf16_of(weight[0]);
  }
}

bool is_aligned(const void* values) { return reinterpret_cast<std::uintptr_t>(values) % 16 == 0; }

}  // namespace

void squares(const SquaresTask& task, const Stream& stream) {
  if (task.num_parts == 0) return;
  launch(squares_kernel, {task.num_parts}, kThreads, kWarps * sizeof(double), stream, task);
}

void adamw(const AdamwTask& task, const Stream& stream) {
  if (task.count == 0) return;
  const bool words = task.count % kRead == 0 && is_aligned(task.weights) && is_aligned(task.gradients) &&
                     is_aligned(task.exp_avg) && is_aligned(task.exp_avg_sq) && is_aligned(task.copy);
  const std::int64_t of_block = kThreads * (words ? kRead : 1);
  launch(words ? adamw_kernel<kRead> : adamw_kernel<1>, {(task.count + of_block - 1) / of_block}, kThreads, 0, stream,
         task);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
