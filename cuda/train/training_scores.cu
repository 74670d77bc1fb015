#include "cuda/runtime/layout.h"
#include "cuda/train/number_segments.cuh"
#include "cuda/train/training_kernels.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kRead = 16;
/// Number of logits per block. It is small, so that few rows occupy all multiprocessors. It is constant, to fix the
/// order of a row's sums.
constexpr std::int64_t kPart = 2 * kRead * kThreads;
constexpr int kJoinThreads = 128;
constexpr std::int64_t num_parts(std::int64_t vocab_size) { return (vocab_size + kPart - 1) / kPart; }
constexpr float kLowest = -3.402823466e38F;

QRL_DEVICE double block_sum(double value, double* exchange) { return block_sum_f64<kWarps>(value, exchange); }
QRL_DEVICE float block_max(float value, double* exchange) {
  value = warp_max(value);
  if (lane_idx() == 0) exchange[warp_idx()] = static_cast<double>(value);
  sync_block();
  float largest = kLowest;
  for (int warp = 0; warp < kWarps; ++warp) largest = fmaxf(largest, static_cast<float>(exchange[warp]));
  sync_block();
  return largest;
}

/// Holds softmax statistics of the logits that a thread or block has read. `largest` starts at the lowest finite
/// number, so that differences are not NaN. A NaN logit makes `sum` NaN.
struct Seen {
  float largest = kLowest, sum = 0, weighted = 0;  ///< sum: Σ e^z; weighted: Σ z·e^z; z = (logit − largest)/temperature
  QRL_DEVICE void add(const float (&logits)[kRead], float inverse_temperature) {
    float most = largest;
#pragma unroll
    for (int i = 0; i < kRead; ++i) most = fmaxf(most, logits[i]);
    if (most > largest) {
      const float shift = (largest - most) * inverse_temperature, factor = expf(shift);
      weighted = factor > 0 ? factor * (weighted + sum * shift) : 0;
      sum *= factor;
      largest = most;
    }
#pragma unroll
    for (int i = 0; i < kRead; ++i) {
      const float z = (logits[i] - largest) * inverse_temperature, weight = expf(z);
      sum += weight;
      if (weight > 0) weighted = fmaf(weight, z, weighted);  // if the weight is 0, z may be −inf, and 0 · −inf is NaN
    }
  }
};

/// Adds statistics in fp64, after scaling them to a common largest logit.
struct Joined {
  double sum = 0, weighted = 0;
  QRL_DEVICE void add(const Seen& seen, float largest, float inverse_temperature) {
    const double shift =
        (static_cast<double>(seen.largest) - static_cast<double>(largest)) * static_cast<double>(inverse_temperature);
    // If all logits of `seen` are −inf, its `largest` is kLowest and the factor is 0.
    const double factor = exp(shift), of_seen = static_cast<double>(seen.sum);
    sum += factor * of_seen;
    weighted += factor * (static_cast<double>(seen.weighted) + of_seen * shift);
  }
};

template <bool kWords>
QRL_KERNEL void score_part_kernel(ScoreTask task) {
  wait_for_kernel_before();
  const std::int64_t row = block_x(), part = block_y();
  const std::int64_t end = (part + 1) * kPart < task.vocab_size ? (part + 1) * kPart : task.vocab_size;
  const float* logits = task.logits + row * task.vocab_size;
  const float inverse_temperature = 1.0F / task.temperature;
  auto* exchange = reinterpret_cast<double*>(shared_memory());
  constexpr int kNext = kWords ? 4 : 1;  // numbers per load
  Seen seen;
  for (std::int64_t begin = part * kPart + kNext * thread_idx(); begin < end; begin += kRead * kThreads) {
    float read[kRead];
#pragma unroll
    for (int i = 0; i < kRead / kNext; ++i) {
      const std::int64_t at = begin + kNext * kThreads * i;
      if constexpr (kWords) {
        Words four{{0xff800000U, 0xff800000U, 0xff800000U, 0xff800000U}};  // −inf
        if (at < end) four = *reinterpret_cast<const Words*>(logits + at);
#pragma unroll
        for (int j = 0; j < 4; ++j) read[4 * i + j] = float_of(four.word[j]);
      } else {
        read[i] = at < end ? logits[at] : -INFINITY;
      }
    }
    seen.add(read, inverse_temperature);
  }
  const float largest = block_max(seen.largest, exchange);
  Joined joined;
  joined.add(seen, largest, inverse_temperature);
  const double sum = block_sum(joined.sum, exchange), weighted = block_sum(joined.weighted, exchange);
  if (thread_idx() != 0) return;
  reinterpret_cast<Seen*>(task.scratch)[row * num_parts(task.vocab_size) + part] = {largest, static_cast<float>(sum),
                                                                                    static_cast<float>(weighted)};
}

QRL_KERNEL void score_join_kernel(ScoreTask task) {
  wait_for_kernel_before();
  const std::int64_t row = block_x() * kJoinThreads + thread_idx();
  if (row >= task.num_rows) return;
  const std::int64_t parts = num_parts(task.vocab_size);
  const Seen* seen = reinterpret_cast<const Seen*>(task.scratch) + row * parts;
  const float inverse_temperature = 1.0F / task.temperature;
  float largest = kLowest;
  for (std::int64_t part = 0; part < parts; ++part) largest = fmaxf(largest, seen[part].largest);
  Joined joined;
  for (std::int64_t part = 0; part < parts; ++part) joined.add(seen[part], largest, inverse_temperature);
  const double target = static_cast<double>(task.logits[row * task.vocab_size + task.targets[row]]);
  const double log_sum = log(joined.sum);
  task.log_probs[row] =
      static_cast<float>((target - static_cast<double>(largest)) * static_cast<double>(inverse_temperature) - log_sum);
  task.entropies[row] = static_cast<float>(log_sum - joined.weighted / joined.sum);
  task.sums[row] = {largest, static_cast<float>(joined.sum)};
}

/// Uses ∂ log p_t / ∂ z = 1[t] − p and ∂ H / ∂ z = −p (log p + H), with z = logit / temperature.
template <int kSize>
QRL_KERNEL void score_gradient_kernel(ScoreGradientTask task) {
  wait_for_kernel_before();
  const std::int64_t row = block_x(), vocab_size = task.scored.vocab_size, first = block_y() * kPart;
  const std::int64_t end = first + kPart < vocab_size ? first + kPart : vocab_size;
  const ReadRows logits{task.scored.logits, vocab_size, true};
  const WrittenRows d_logits{task.d_logits, vocab_size, task.is_f32};
  const float inverse_temperature = 1.0F / task.scored.temperature;
  const RowSums sums = task.scored.sums[row];
  const float inverse_sum = 1.0F / sums.sum, log_sum = logf(sums.sum);
  const float of_target = task.d_log_probs[row] * inverse_temperature;
  const bool has_entropy = task.d_entropies != nullptr;
  const float of_entropy = has_entropy ? task.d_entropies[row] * inverse_temperature : 0;
  const float lift = has_entropy ? task.scored.entropies[row] - log_sum : 0;
  const std::int64_t target = task.scored.targets[row];
  for (std::int64_t i = first + kSize * thread_idx(); i < end; i += kSize * kThreads) {
    float x[kSize];
    Vector<kSize>::load(logits, row * vocab_size + i).widen(true, x);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      const float z = (x[j] - sums.largest) * inverse_temperature, p = expf(z) * inverse_sum;
      float d = -p * of_target;
      if (has_entropy && p > 0) d -= p * (z + lift) * of_entropy;
      x[j] = i + j == target ? d + of_target : d;
    }
    Vector<kSize>::store(d_logits, row * vocab_size + i, x);
  }
}

}  // namespace

std::int64_t score_scratch_floats(std::int64_t num_rows, std::int64_t vocab_size) {
  return num_rows * num_parts(vocab_size) * static_cast<std::int64_t>(sizeof(Seen) / sizeof(float));
}

void score(const ScoreTask& task, const Stream& stream) {
  const bool words = has_words(task.logits, task.vocab_size);
  launch(words ? score_part_kernel<true> : score_part_kernel<false>, {task.num_rows, num_parts(task.vocab_size)},
         kThreads, kWarps * sizeof(double), stream, task);
  launch(score_join_kernel, {(task.num_rows + kJoinThreads - 1) / kJoinThreads}, kJoinThreads, 0, stream, task);
}

void score_gradient(const ScoreGradientTask& task, const Stream& stream) {
  const bool words =
      has_words(task.scored.logits, task.scored.vocab_size) && has_words(task.d_logits, task.scored.vocab_size);
  launch(words ? score_gradient_kernel<8> : score_gradient_kernel<1>,
         {task.scored.num_rows, num_parts(task.scored.vocab_size)}, kThreads, 0, stream, task);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
