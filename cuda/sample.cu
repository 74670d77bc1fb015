// Drawing tokens from logits, by the rule of ops/sample.h.
#include "kernels.h"
#include "target.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
static_assert(kThreads == kDrawBlock);

/// A block takes a row, a warp every eighth block of the stretch's logits.
QRL_KERNEL void summarise_kernel(SummariseTask task) {
  const std::int64_t row = block_x();
  const float* logits = task.logits + row * task.stride;
  const float inverse_temperature = task.settings->inverse_temperature;
  for (std::int64_t begin = warp_idx() * kDrawBlock; begin < task.num_tokens; begin += kWarps * kDrawBlock) {
    const std::int64_t end = begin + kDrawBlock < task.num_tokens ? begin + kDrawBlock : task.num_tokens;
    float largest = -INFINITY;
    bool any_nan = false;
    for (std::int64_t i = begin + lane_idx(); i < end; i += 32) {
      largest = fmaxf(largest, logits[i]);
      any_nan = any_nan || logits[i] != logits[i];
    }
    largest = warp_max(largest);
    float sum = any_nan ? NAN : 0.0F;
    if (largest != -INFINITY) {
      for (std::int64_t i = begin + lane_idx(); i < end; i += 32)
        sum += expf((logits[i] - largest) * inverse_temperature);
    }
    sum = warp_sum(sum);
    if (lane_idx() != 0) continue;
    const std::int64_t block = row * task.num_blocks + (task.first_token + begin) / kDrawBlock;
    task.block_max[block] = largest;
    task.block_sum[block] = sum;
  }
}

/// What a block's threads agree on while they draw a row's token.
struct Choice {
  double total, rest;
  float max;
  std::int32_t block;
  bool broken;
};

struct alignas(16) Words {
  std::uint32_t word[4];
};

/// Logits of the block's tokens from the row and their weights, a warp a token.
QRL_DEVICE void make_logits_again(const DrawTask& task, std::int64_t row, std::int64_t begin, std::int64_t count,
                                  float* logits) {
  const auto* x = reinterpret_cast<const Words*>(task.rows_bf16 + row * task.width);
  for (std::int64_t i = warp_idx(); i < count; i += kWarps) {
    const auto* w = reinterpret_cast<const Words*>(task.weights_bf16 + (begin + i) * task.width);
    float sum = 0;
    for (std::int64_t k = lane_idx(); k < task.width / 8; k += 32) {
      const Words a = x[k], b = w[k];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        sum = fmaf(float_of(a.word[j] << 16), float_of(b.word[j] << 16), sum);
        sum = fmaf(float_of(a.word[j] & 0xffff0000U), float_of(b.word[j] & 0xffff0000U), sum);
      }
    }
    sum = warp_sum(sum);
    if (lane_idx() == 0) logits[i] = sum;
  }
}

/// Shared memory: the choice, each block's share of the total (fp64), the chosen block's logits and weights.
QRL_KERNEL void draw_kernel(DrawTask task) {
  auto& choice = *reinterpret_cast<Choice*>(shared_memory());
  auto* shares = reinterpret_cast<double*>(shared_memory() + round_up(sizeof(Choice), 16));
  auto* logits = reinterpret_cast<float*>(shares + round_up(task.num_blocks, 2));
  float* weights = logits + kDrawBlock;
  const std::int64_t row = block_x();
  const float* maxima = task.block_max + row * task.num_blocks;
  const float* sums = task.block_sum + row * task.num_blocks;
  const DrawSettings settings = *task.settings;
  const double inverse_temperature = settings.inverse_temperature;

  if (thread_idx() == 0) {
    choice.max = -INFINITY;
    choice.block = 0;
    for (std::int64_t b = 0; b < task.num_blocks; ++b) {
      if (maxima[b] > choice.max) {
        choice.max = maxima[b];
        choice.block = static_cast<std::int32_t>(b);
      }
    }
  }
  sync_block();
  for (std::int64_t b = thread_idx(); b < task.num_blocks; b += kThreads) {
    const double away = static_cast<double>(maxima[b]) - static_cast<double>(choice.max);
    shares[b] = sums[b] == 0 ? 0.0 : static_cast<double>(sums[b]) * exp(away * inverse_temperature);
  }
  sync_block();
  if (thread_idx() == 0) {
    choice.total = 0;
    for (std::int64_t b = 0; b < task.num_blocks; ++b) choice.total += shares[b];
    choice.broken = !(is_finite(choice.max) && is_finite(choice.total));
    choice.rest = 0;
    if (!choice.broken && settings.greedy == 0) {
      const double target = task.uniforms[row] * choice.total;
      double before = 0;
      std::int64_t block = 0;
      for (; block + 1 < task.num_blocks; ++block) {
        const double next = before + shares[block];
        if (next > target) break;
        before = next;
      }
      choice.block = static_cast<std::int32_t>(block);
      choice.rest = (target - before) / (shares[block] / static_cast<double>(sums[block]));
    }
  }
  sync_block();
  if (choice.broken) {
    if (thread_idx() == 0) {
      task.tokens[row] = -1;
      task.logprobs[row] = 0;
    }
    return;
  }
  const std::int64_t begin = choice.block * kDrawBlock;
  const std::int64_t count = begin + kDrawBlock < task.vocab_size ? kDrawBlock : task.vocab_size - begin;
  if (task.logits == nullptr) make_logits_again(task, row, begin, count, logits);
  else if (thread_idx() < count) logits[thread_idx()] = task.logits[row * task.stride + begin + thread_idx()];
  sync_block();
  if (thread_idx() < count)
    weights[thread_idx()] = expf((logits[thread_idx()] - maxima[choice.block]) * settings.inverse_temperature);
  sync_block();
  if (thread_idx() != 0) return;
  std::int64_t chosen = 0;
  if (settings.greedy != 0) {
    for (std::int64_t i = 1; i < count; ++i) {
      if (logits[i] > logits[chosen]) chosen = i;
    }
    task.logprobs[row] = 0;
  } else {
    // Where rounding leaves the target behind all weights of the block, the last one above zero is the token.
    double before = 0;
    for (std::int64_t i = 0; i < count && before <= choice.rest; ++i) {
      if (weights[i] <= 0) continue;
      chosen = i;
      before += static_cast<double>(weights[i]);
    }
    const double scaled = (static_cast<double>(logits[chosen]) - static_cast<double>(choice.max)) * inverse_temperature;
    task.logprobs[row] = static_cast<float>(scaled - log(choice.total));
  }
  task.tokens[row] = static_cast<std::int32_t>(begin + chosen);
}

}  // namespace

void summarise_logits(const SummariseTask& task, std::int64_t num_rows, const Stream& stream) {
  launch(summarise_kernel, {num_rows}, kThreads, 0, stream, task);
}

void draw_tokens(const DrawTask& task, std::int64_t num_rows, const Stream& stream) {
  const std::size_t shared_bytes =
      static_cast<std::size_t>(round_up(sizeof(Choice), 16) + round_up(task.num_blocks, 2) * 8 + 2 * kDrawBlock * 4);
  launch(draw_kernel, {num_rows}, kThreads, shared_bytes, stream, task);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
