// Log-probs of targets, entropies and the gradients of both: logits are read once each way.
#include "layout.h"
#include "number_runs.cuh"
#include "training_kernels.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
/// Logits that a thread reads before it looks at them.
constexpr int kRead = 16;
constexpr float kLowest = -3.402823466e38F;

// Every thread of a block gets these, of doubles and the largest of floats; `exchange` holds kWarps of them.
QRL_DEVICE double block_sum(double value, double* exchange) {
  for (int mask = 16; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  if (lane_idx() == 0) exchange[warp_idx()] = value;
  sync_block();
  double total = 0;
  for (int warp = 0; warp < kWarps; ++warp) total += exchange[warp];
  sync_block();
  return total;
}
QRL_DEVICE float block_max(float value, double* exchange) {
  value = warp_max(value);
  if (lane_idx() == 0) exchange[warp_idx()] = static_cast<double>(value);
  sync_block();
  float largest = kLowest;
  for (int warp = 0; warp < kWarps; ++warp) largest = fmaxf(largest, static_cast<float>(exchange[warp]));
  sync_block();
  return largest;
}

/// What a thread has seen of a row. It starts from the lowest number, not −inf, so that differences are numbers; NaN
/// comes into the sum by itself.
struct Seen {
  float largest = kLowest, sum = 0, weighted = 0;  ///< Σ e^z, Σ e^z · z; z = (logit − largest) / temperature, fp32
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
      if (weight > 0) weighted = fmaf(weight, z, weighted);  // z is −inf where nothing can be drawn
    }
  }
};

/// A block takes a row.
template <bool kWords>
QRL_KERNEL void score_kernel(ScoreTask task) {
  wait_for_kernel_before();
  const std::int64_t row = block_x();
  const float* logits = task.logits + row * task.vocab_size;
  const float inverse_temperature = 1.0F / task.temperature;
  auto* exchange = reinterpret_cast<double*>(shared_memory());
  constexpr int kNext = kWords ? 4 : 1;  // numbers in one read
  Seen seen;
  for (std::int64_t begin = kNext * thread_idx(); begin < task.vocab_size; begin += kRead * kThreads) {
    float read[kRead];
#pragma unroll
    for (int i = 0; i < kRead / kNext; ++i) {
      const std::int64_t at = begin + kNext * kThreads * i;
      if constexpr (kWords) {
        Words four{{0xff800000U, 0xff800000U, 0xff800000U, 0xff800000U}};  // −inf
        if (at < task.vocab_size) four = *reinterpret_cast<const Words*>(logits + at);
#pragma unroll
        for (int j = 0; j < 4; ++j) read[4 * i + j] = float_of(four.word[j]);
      } else {
        read[i] = at < task.vocab_size ? logits[at] : -INFINITY;
      }
    }
    seen.add(read, inverse_temperature);
  }
  const float largest = block_max(seen.largest, exchange);
  const double shift =
      (static_cast<double>(seen.largest) - static_cast<double>(largest)) * static_cast<double>(inverse_temperature);
  const double factor = exp(shift), sum = static_cast<double>(seen.sum);
  const double total = block_sum(factor * sum, exchange);
  // A thread that saw nothing but −inf is far below all others: 0 · a finite number.
  const double weighted = block_sum(factor * (static_cast<double>(seen.weighted) + sum * shift), exchange);
  if (thread_idx() != 0) return;
  const double target = static_cast<double>(logits[task.targets[row]]);
  const double log_total = log(total);
  task.log_probs[row] = static_cast<float>(
      (target - static_cast<double>(largest)) * static_cast<double>(inverse_temperature) - log_total);
  task.entropies[row] = static_cast<float>(log_total - weighted / total);
  task.sums[row] = {largest, static_cast<float>(total)};
}

/// ∂ log p_t / ∂ z = 1[t] − p and ∂ H / ∂ z = −p (log p + H), z = logit / temperature. A block takes a row.
template <int kRun>
QRL_KERNEL void score_gradient_kernel(ScoreGradientTask task) {
  wait_for_kernel_before();
  const std::int64_t row = block_x(), vocab_size = task.scored.vocab_size;
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
  for (std::int64_t i = kRun * thread_idx(); i < vocab_size; i += kRun * kThreads) {
    float x[kRun];
    Run<kRun>::load(logits, row * vocab_size + i).widen(true, x);
#pragma unroll
    for (int j = 0; j < kRun; ++j) {
      const float z = (x[j] - sums.largest) * inverse_temperature, p = expf(z) * inverse_sum;
      float d = -p * of_target;
      if (has_entropy && p > 0) d -= p * (z + lift) * of_entropy;
      x[j] = i + j == target ? d + of_target : d;
    }
    Run<kRun>::store(d_logits, row * vocab_size + i, x);
  }
}

}  // namespace

void score(const ScoreTask& task, const Stream& stream) {
  const bool words = has_words(task.logits, task.vocab_size);
  launch(words ? score_kernel<true> : score_kernel<false>, {task.num_rows}, kThreads, kWarps * sizeof(double), stream,
         task);
}

void score_gradient(const ScoreGradientTask& task, const Stream& stream) {
  const bool words =
      has_words(task.scored.logits, task.scored.vocab_size) && has_words(task.d_logits, task.scored.vocab_size);
  launch(words ? score_gradient_kernel<8> : score_gradient_kernel<1>, {task.scored.num_rows}, kThreads, 0, stream,
         task);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
