// Drawing tokens from logits, by the rule of ops/sample.h, and the log-probs that a token would be drawn with.
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
    float sum = any_nan ? NAN : 0.0F, weighted = 0;
    if (largest != -INFINITY) {
      for (std::int64_t i = begin + lane_idx(); i < end; i += 32) {
        const float z = (logits[i] - largest) * inverse_temperature, weight = expf(z);
        sum += weight;
        if (weight > 0) weighted += weight * z;  // an excluded token's z is -inf
      }
    }
    sum = warp_sum(sum);
    if (task.block_weighted != nullptr) weighted = warp_sum(weighted);
    if (lane_idx() != 0) continue;
    const std::int64_t block = row * task.num_blocks + (task.first_token + begin) / kDrawBlock;
    task.block_max[block] = largest;
    task.block_sum[block] = sum;
    if (task.block_weighted != nullptr) task.block_weighted[block] = weighted;
  }
}

/// A logit and its block.
struct Largest {
  float value;
  std::int32_t block;
  /// The larger one; of equals the first.
  QRL_DEVICE void join(float other, std::int32_t of_block) {
    const bool wins = other > value || (other == value && of_block < block);
    value = wins ? other : value;
    block = wins ? of_block : block;
  }
};

/// What a block's threads agree on while they draw a row's token.
struct Choice {
  Largest largest[kWarps];  // of each warp's share
  double total;
  std::int32_t block;
};

struct alignas(16) Words {
  std::uint32_t word[4];
};

/// Logits of the block's tokens from the row and their weights, a warp a token.
QRL_DEVICE void make_logits_again(const SummarisedRows& rows, std::int64_t row, std::int64_t begin, std::int64_t count,
                                  float* logits) {
  const auto* x = reinterpret_cast<const Words*>(rows.rows_bf16 + row * rows.width);
  for (std::int64_t i = warp_idx(); i < count; i += kWarps) {
    const auto* w = reinterpret_cast<const Words*>(rows.weights_bf16 + (begin + i) * rows.width);
    float sum = 0;
    for (std::int64_t k = lane_idx(); k < rows.width / 8; k += 32) {
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

/// Shared memory: the choice, each block's share of the total and the total up to it (fp64), the chosen block's logits
/// and weights.
struct DrawPlace {
  Choice& choice;
  double *shares, *ends;
  float *logits, *weights;
  QRL_DEVICE explicit DrawPlace(std::int64_t num_blocks)
      : choice(*reinterpret_cast<Choice*>(shared_memory())),
        shares(reinterpret_cast<double*>(shared_memory() + round_up(sizeof(Choice), 16))),
        ends(shares + num_blocks),
        logits(reinterpret_cast<float*>(ends + num_blocks)),
        weights(logits + kDrawBlock) {}
  static std::size_t num_bytes(std::int64_t num_blocks) {
    return static_cast<std::size_t>(round_up(sizeof(Choice), 16) + num_blocks * 16 + 2 * kDrawBlock * 4);
  }
};

/// The row's largest logit and its block, for every thread; block 0 where all are −inf or NaN.
QRL_DEVICE Largest find_largest(const float* maxima, std::int64_t num_blocks, Choice& choice) {
  Largest largest{-INFINITY, 0};
  for (std::int64_t b = thread_idx(); b < num_blocks; b += kThreads)
    largest.join(maxima[b], static_cast<std::int32_t>(b));
  for (int mask = 16; mask > 0; mask /= 2)
    largest.join(shuffle_xor(largest.value, mask), shuffle_xor(largest.block, mask));
  if (lane_idx() == 0) choice.largest[warp_idx()] = largest;
  sync_block();
  for (const Largest& of_warp : choice.largest) largest.join(of_warp.value, of_warp.block);
  return largest;
}

/// A row's blocks, for every thread: shares, ends, the total and, till another is chosen, the largest logit's block.
QRL_DEVICE Largest sum_blocks(const SummarisedRows& rows, std::int64_t row, const DrawPlace& place) {
  const float* maxima = rows.block_max + row * rows.num_blocks;
  const float* sums = rows.block_sum + row * rows.num_blocks;
  const double inverse_temperature = rows.settings->inverse_temperature;
  const Largest largest = find_largest(maxima, rows.num_blocks, place.choice);
  for (std::int64_t b = thread_idx(); b < rows.num_blocks; b += kThreads) {
    const double away = static_cast<double>(maxima[b]) - static_cast<double>(largest.value);
    place.shares[b] = sums[b] == 0 ? 0.0 : static_cast<double>(sums[b]) * exp(away * inverse_temperature);
  }
  sync_block();
  // The one sum that has to be in order; what else the draw needs follows from it at once.
  if (thread_idx() == 0) {
    double total = 0;
    for (std::int64_t b = 0; b < rows.num_blocks; ++b) {
      total += place.shares[b];
      place.ends[b] = total;
    }
    place.choice.total = total;
    place.choice.block = largest.block;
  }
  sync_block();
  return largest;
}

/// Of a token that is drawn with this logit.
QRL_DEVICE float logprob_of(float logit, const Largest& largest, double inverse_temperature, double total) {
  const double scaled = (static_cast<double>(logit) - static_cast<double>(largest.value)) * inverse_temperature;
  return static_cast<float>(scaled - log(total));
}

QRL_KERNEL void draw_kernel(DrawTask task) {
  const SummarisedRows& rows = task.rows;
  const DrawPlace place(rows.num_blocks);
  Choice& choice = place.choice;
  double *shares = place.shares, *ends = place.ends;
  float *logits = place.logits, *weights = place.weights;
  const std::int64_t row = block_x();
  const float* maxima = rows.block_max + row * rows.num_blocks;
  const float* sums = rows.block_sum + row * rows.num_blocks;
  const DrawSettings settings = *rows.settings;

  const Largest largest = sum_blocks(rows, row, place);
  if (!(is_finite(largest.value) && is_finite(choice.total))) {
    if (thread_idx() == 0) {
      task.tokens[row] = -1;
      task.logprobs[row] = 0;
    }
    return;
  }
  const double target = task.uniforms[row] * choice.total;  // below the total
  if (settings.greedy == 0) {
    for (std::int64_t b = thread_idx(); b < rows.num_blocks; b += kThreads) {
      if (ends[b] > target && (b == 0 || ends[b - 1] <= target)) choice.block = static_cast<std::int32_t>(b);
    }
    sync_block();
  }
  const std::int64_t begin = choice.block * kDrawBlock;
  const std::int64_t count = begin + kDrawBlock < rows.vocab_size ? kDrawBlock : rows.vocab_size - begin;
  if (rows.logits == nullptr) make_logits_again(rows, row, begin, count, logits);
  else if (thread_idx() < count) logits[thread_idx()] = rows.logits[row * rows.stride + begin + thread_idx()];
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
    const double rest = (target - (choice.block == 0 ? 0 : ends[choice.block - 1])) /
                        (shares[choice.block] / static_cast<double>(sums[choice.block]));
    double before = 0;
    for (std::int64_t i = 0; i < count && before <= rest; ++i) {
      if (weights[i] <= 0) continue;
      chosen = i;
      before += static_cast<double>(weights[i]);
    }
    task.logprobs[row] = logprob_of(logits[chosen], largest, settings.inverse_temperature, choice.total);
  }
  task.tokens[row] = static_cast<std::int32_t>(begin + chosen);
}

QRL_KERNEL void score_kernel(ScoreTask task) {
  const SummarisedRows& rows = task.rows;
  const DrawPlace place(rows.num_blocks);
  const std::int64_t row = block_x(), first_block = row * rows.num_blocks;
  const double inverse_temperature = rows.settings->inverse_temperature;
  const Largest largest = sum_blocks(rows, row, place);
  const double total = place.choice.total;
  if (!(is_finite(largest.value) && is_finite(total))) {
    if (thread_idx() == 0) task.logprobs[row] = task.entropies[row] = float_of(kNanBits);
    return;
  }
  const std::int64_t target = task.targets[row];
  if (rows.logits == nullptr) make_logits_again(rows, row, target, 1, place.logits);
  else if (thread_idx() == 0) place.logits[0] = rows.logits[row * rows.stride + target];
  // Each block's Σ weight·log(weight), weights relative to the largest logit.
  for (std::int64_t b = thread_idx(); b < rows.num_blocks; b += kThreads) {
    const double sum = rows.block_sum[first_block + b], weighted = task.block_weighted[first_block + b];
    const double away = static_cast<double>(rows.block_max[first_block + b]) - static_cast<double>(largest.value);
    place.ends[b] = place.shares[b] == 0 ? 0.0 : place.shares[b] * (weighted / sum + away * inverse_temperature);
  }
  sync_block();
  if (thread_idx() != 0) return;
  double weighted = 0;
  for (std::int64_t b = 0; b < rows.num_blocks; ++b) weighted += place.ends[b];
  task.logprobs[row] = logprob_of(place.logits[0], largest, inverse_temperature, total);
  task.entropies[row] = static_cast<float>(log(total) - weighted / total);
}

}  // namespace

void summarise_logits(const SummariseTask& task, std::int64_t num_rows, const Stream& stream) {
  launch(summarise_kernel, {num_rows}, kThreads, 0, stream, task);
}

void draw_tokens(const DrawTask& task, std::int64_t num_rows, const Stream& stream) {
  launch(draw_kernel, {num_rows}, kThreads, DrawPlace::num_bytes(task.rows.num_blocks), stream, task);
}

void score_tokens(const ScoreTask& task, std::int64_t num_rows, const Stream& stream) {
  launch(score_kernel, {num_rows}, kThreads, DrawPlace::num_bytes(task.rows.num_blocks), stream, task);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
