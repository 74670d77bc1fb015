#include "cuda/runtime/layout.h"
#include "cuda/runtime/row_block.cuh"
#include "cuda/train/number_segments.cuh"
#include "cuda/train/training_kernels.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

constexpr std::int64_t kSegment = 32;  ///< rows per block of the backward pass

template <int kSize>
QRL_DEVICE void load(const float* from, float (&x)[kSize]) {
  Vector<kSize>::load({from, 0, true}, 0).widen(true, x);
}
template <int kSize>
QRL_DEVICE void store(float* to, const float (&x)[kSize]) {
  Vector<kSize>::store({to, 0, true}, 0, x);
}

template <int kSize>
QRL_KERNEL void add_norm_kernel(AddNormTask task) {
  wait_for_kernel_before();
  auto* sums = reinterpret_cast<float*>(shared_memory());
  float* exchange = sums + round_up(task.width, 8);
  const std::int64_t row = block_x();
  float squares = 0;
  for (std::int64_t i = kSize * thread_idx(); i < task.width; i += kSize * kThreads) {
    float x[kSize];
    const auto entering = Vector<kSize>::load(task.x, row * task.x.stride + i);
    entering.widen(task.x.is_f32, x);
    if (task.branch.values != nullptr) {
      float branch[kSize], bias[kSize] = {};
      Vector<kSize>::load(task.branch, row * task.branch.stride + i).widen(task.branch.is_f32, branch);
      if (task.bias != nullptr) load<kSize>(task.bias + i, bias);
#pragma unroll
      for (int j = 0; j < kSize; ++j) x[j] += branch[j] + bias[j];
      Vector<kSize>::store(task.sum, row * task.sum.stride + i, x);
    }
#pragma unroll
    for (int j = 0; j < kSize; ++j) squares = fmaf(x[j], x[j], squares);
    store<kSize>(sums + i, x);
  }
  const float mean = block_sum(squares, exchange) / static_cast<float>(task.width);
  const float inverse = 1.0F / sqrtf(mean + task.eps);
  if (thread_idx() == 0) task.inverse_rms[row] = inverse;
  for (std::int64_t i = kSize * thread_idx(); i < task.width; i += kSize * kThreads) {
    float x[kSize], gain[kSize];
    load<kSize>(sums + i, x);
    load<kSize>(task.gain + i, gain);
#pragma unroll
    for (int j = 0; j < kSize; ++j) x[j] = x[j] * inverse * gain[j];
    Vector<kSize>::store(task.out, row * task.out.stride + i, x);
  }
}

struct AddNormGradientWork {
  AddNormGradientTask task;
  float *gain_sums, *bias_sums;
};

/// A block processes kSegment rows in order. A thread has the same columns in all rows. With x̂ = sum / rms, the
/// gradient of sum is (dx̂ − x̂ · mean(dx̂ · x̂)) / rms + d_sum.
template <int kSize>
QRL_KERNEL void add_norm_gradient_kernel(AddNormGradientWork work) {
  wait_for_kernel_before();
  const AddNormGradientTask& task = work.task;
  const std::int64_t width = task.width, begin = block_x() * kSegment;
  const std::int64_t end = begin + kSegment < task.num_rows ? begin + kSegment : task.num_rows;
  auto* d_gains = reinterpret_cast<float*>(shared_memory());
  float* d_biases = d_gains + round_up(width, 8);
  float* exchange = d_biases + (work.bias_sums != nullptr ? round_up(width, 8) : 0);
  const float zeros[kSize] = {};
  for (std::int64_t i = kSize * thread_idx(); i < width; i += kSize * kThreads) {
    store<kSize>(d_gains + i, zeros);
    if (work.bias_sums != nullptr) store<kSize>(d_biases + i, zeros);
  }
  for (std::int64_t row = begin; row < end; ++row) {
    const float inverse = task.inverse_rms[row];
    float along = 0;
    for (std::int64_t i = kSize * thread_idx(); i < width; i += kSize * kThreads) {
      float x[kSize], d[kSize], gain[kSize], d_gain[kSize];
      const auto sums = Vector<kSize>::load(task.sum, row * task.sum.stride + i);
      const auto d_outs = Vector<kSize>::load(task.d_out, row * task.d_out.stride + i);
      sums.widen(task.sum.is_f32, x);
      d_outs.widen(task.d_out.is_f32, d);
      load<kSize>(task.gain + i, gain);
      load<kSize>(d_gains + i, d_gain);
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        const float of_gain = d[j] * (x[j] * inverse);
        d_gain[j] += of_gain;
        along = fmaf(of_gain, gain[j], along);
      }
      store<kSize>(d_gains + i, d_gain);
    }
    along = block_sum(along, exchange) / static_cast<float>(width);
    for (std::int64_t i = kSize * thread_idx(); i < width; i += kSize * kThreads) {
      float x[kSize], d[kSize], gain[kSize], later[kSize] = {};
      const auto sums = Vector<kSize>::load(task.sum, row * task.sum.stride + i);
      const auto d_outs = Vector<kSize>::load(task.d_out, row * task.d_out.stride + i);
      if (task.d_sum.values != nullptr)
        Vector<kSize>::load(task.d_sum, row * task.d_sum.stride + i).widen(task.d_sum.is_f32, later);
      sums.widen(task.sum.is_f32, x);
      d_outs.widen(task.d_out.is_f32, d);
      load<kSize>(task.gain + i, gain);
#pragma unroll
      for (int j = 0; j < kSize; ++j) x[j] = inverse * (d[j] * gain[j] - x[j] * inverse * along) + later[j];
      Vector<kSize>::store(task.d_x, row * task.d_x.stride + i, x);
      if (task.d_branch.values != nullptr) Vector<kSize>::store(task.d_branch, row * task.d_branch.stride + i, x);
      if (work.bias_sums != nullptr) {
        float d_bias[kSize];
        load<kSize>(d_biases + i, d_bias);
#pragma unroll
        for (int j = 0; j < kSize; ++j) d_bias[j] += x[j];
        store<kSize>(d_biases + i, d_bias);
      }
    }
  }
  for (std::int64_t i = kSize * thread_idx(); i < width; i += kSize * kThreads) {
    float sum[kSize];
    load<kSize>(d_gains + i, sum);
    store<kSize>(work.gain_sums + block_x() * width + i, sum);
    if (work.bias_sums == nullptr) continue;
    load<kSize>(d_biases + i, sum);
    store<kSize>(work.bias_sums + block_x() * width + i, sum);
  }
}

bool has_words(const float* values) { return reinterpret_cast<std::uintptr_t>(values) % 16 == 0; }
std::size_t shared_bytes_of(std::int64_t width, int num_rows) {
  return static_cast<std::size_t>(num_rows * round_up(width, 8) + kWarps) * sizeof(float);
}

}  // namespace

void add_norm(const AddNormTask& task, const Stream& stream) {
  const bool words = task.width % 8 == 0 && has_words(task.x) && has_words(task.branch) && has_words(task.sum) &&
                     has_words(task.out) && has_words(task.bias) && has_words(task.gain);
  launch(words ? add_norm_kernel<8> : add_norm_kernel<1>, {task.num_rows}, kThreads, shared_bytes_of(task.width, 1),
         stream, task);
}

std::int64_t add_norm_scratch_floats(std::int64_t num_rows, std::int64_t width, bool has_bias) {
  return ceil_div(num_rows, kSegment) * width * (has_bias ? 2 : 1);
}

void add_norm_gradient(const AddNormGradientTask& task, const Stream& stream) {
  const std::int64_t segments = ceil_div(task.num_rows, kSegment);
  const bool has_bias = task.d_bias != nullptr;
  const AddNormGradientWork work{task, task.scratch, has_bias ? task.scratch + segments * task.width : nullptr};
  const bool words = task.width % 8 == 0 && has_words(task.sum) && has_words(task.d_out) && has_words(task.d_sum) &&
                     has_words(task.d_x) && has_words(task.d_branch) && has_words(task.gain) && has_words(task.scratch);
  launch(words ? add_norm_gradient_kernel<8> : add_norm_gradient_kernel<1>, {segments}, kThreads,
         shared_bytes_of(task.width, has_bias ? 2 : 1), stream, work);
  if (task.d_gain != nullptr) add_column_sums({work.gain_sums, segments, task.width, task.width, task.d_gain}, stream);
  if (has_bias) add_column_sums({work.bias_sums, segments, task.width, task.width, task.d_bias}, stream);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
