#include "cuda/runtime/target.h"
#include "cuda/sample/sample.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
static_assert(kThreads == kSampleBlock && kSamplePart == 32 && kSampleParts == 8);

/// Sums each part of a block over the warp. A lane passes one number per part. Lane l receives the sum of part l / 4.
QRL_DEVICE float sum_parts(const float (&of_part)[kSampleParts]) {
  float left[kSampleParts];
#pragma unroll
  for (int p = 0; p < kSampleParts; ++p) left[p] = of_part[p];
#pragma unroll
  for (int count = kSampleParts / 2; count > 0; count /= 2) {
    const int mask = 4 * count;
    const bool upper = (lane_idx() & mask) != 0;
#pragma unroll
    for (int p = 0; p < count; ++p) {
      const float kept = upper ? left[count + p] : left[p], given = upper ? left[p] : left[count + p];
      left[p] = kept + shuffle_xor(given, mask);
    }
  }
  for (int mask = 2; mask > 0; mask /= 2) left[0] += shuffle_xor(left[0], mask);
  return left[0];
}

/// Summarizes kWarps blocks of a row's logits, one block per warp. A lane reads one logit of each part of its block.
QRL_KERNEL void summarize_kernel(SummarizeTask task) {
  wait_for_kernel_before();
  const std::int64_t row = block_x(), begin = (block_y() * kWarps + warp_idx()) * kSampleBlock;
  if (begin >= task.num_tokens) return;
  const float* logits = task.logits + row * task.stride;
  const float inverse_temperature = task.settings[row].inverse_temperature;
  float logit[kSampleParts], largest = -INFINITY;
#pragma unroll
  for (int p = 0; p < kSampleParts; ++p) {
    const std::int64_t i = begin + p * kSamplePart + lane_idx();
    logit[p] = i < task.num_tokens ? logits[i] : -INFINITY;
    largest = fmaxf(largest, logit[p]);
  }
  largest = warp_max(largest);
  float weight[kSampleParts], weighted = 0;
#pragma unroll
  for (int p = 0; p < kSampleParts; ++p) {
    const float z = (logit[p] - largest) * inverse_temperature;
    // The weight of a NaN logit is NaN, although fmaxf ignores NaN. The weight of a logit of −inf is 0, even if all
    // logits are −inf.
    weight[p] = largest != -INFINITY ? expf(z) : logit[p] == -INFINITY ? 0.0F : logit[p];
    if (weight[p] > 0) weighted += weight[p] * z;  // if the weight is 0, z may be −inf, and 0 · −inf is NaN
  }
  const float of_part = sum_parts(weight);
  float sum = of_part;
  for (int mask = 4; mask < 32; mask *= 2) sum += shuffle_xor(sum, mask);
  if (task.block_weighted != nullptr) weighted = warp_sum(weighted);
  const std::int64_t block = row * task.num_blocks + (task.first_token + begin) / kSampleBlock;
  if (lane_idx() % 4 == 0) task.part_sum[block * kSampleParts + lane_idx() / 4] = of_part;
  if (lane_idx() != 0) return;
  task.block_max[block] = largest;
  task.block_sum[block] = sum;
  if (task.block_weighted != nullptr) task.block_weighted[block] = weighted;
}

struct Largest {
  float value;
  std::int32_t block;
  QRL_DEVICE void join(float other, std::int32_t of_block) {
    const bool wins = other > value || (other == value && of_block < block);
    value = wins ? other : value;
    block = wins ? of_block : block;
  }
};

struct Choice {
  double sums[32];  // sums of 32 groups of blocks
  double total;
  Largest largest[kWarps];
  std::int32_t block[kWarps];  // per warp, the first block that find_block found
};

struct alignas(16) Words {
  std::uint32_t word[4];
};

/// Adds the dot product of 16 bytes of x with 16 bytes of w to `sum`. The bytes hold bf16 (added in fp32) or int8
/// (added exactly).
QRL_DEVICE void add_products(const Words& x, const Words& w, float& sum) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    sum = fmaf(float_of(x.word[j] << 16), float_of(w.word[j] << 16), sum);
    sum = fmaf(float_of(x.word[j] & 0xffff0000U), float_of(w.word[j] & 0xffff0000U), sum);
  }
}
QRL_DEVICE void add_products(const Words& x, const Words& w, std::int32_t& sum) {
#pragma unroll
  for (int j = 0; j < 4; ++j) sum = add_int8_products(x.word[j], w.word[j], sum);
}

template <class Sum>
QRL_DEVICE void recompute_logits(const SummarizedRows& rows, std::int64_t row, std::int64_t begin, std::int64_t count,
                                 float* logits) {
  const std::int64_t num_vectors = rows.head.at.row_bytes / static_cast<std::int64_t>(sizeof(Words));
  const auto* x = static_cast<const Words*>(rows.hidden.quantized) + row * num_vectors;
  for (std::int64_t i = warp_idx(); i < count; i += kWarps) {
    const auto* w = reinterpret_cast<const Words*>(rows.head.quantized) + (begin + i) * num_vectors;
    Sum sum = 0;
    for (std::int64_t k = lane_idx(); k < num_vectors; k += 32) add_products(x[k], w[k], sum);
    sum = warp_sum(sum);
    if (lane_idx() != 0) continue;
    const float scale = rows.head.scales == nullptr ? 1.0F : rows.hidden.scales[row] * rows.head.scales[begin + i];
    logits[i] = static_cast<float>(sum) * scale;
  }
}
QRL_DEVICE void find_logits(const SummarizedRows& rows, std::int64_t row, std::int64_t begin, std::int64_t count,
                            float* logits) {
  if (rows.logits == nullptr) {
    if (rows.hidden.element == quant::Element::int8) recompute_logits<std::int32_t>(rows, row, begin, count, logits);
    else recompute_logits<float>(rows, row, begin, count, logits);
  } else if (thread_idx() < count) {
    logits[thread_idx()] = rows.logits[row * rows.stride + begin + thread_idx()];
  }
}

/// Lays out shared memory. `shares` holds each block's Σ exp(z), relative to the row's largest logit. `ends` holds the
/// cumulative sums of `shares`. `logits` and `weights` belong to the chosen block's tokens.
struct SamplePlace {
  Choice& choice;
  double *shares, *ends;
  float *logits, *weights;
  QRL_DEVICE explicit SamplePlace(std::int64_t num_blocks)
      : choice(*reinterpret_cast<Choice*>(shared_memory())),
        shares(reinterpret_cast<double*>(shared_memory() + round_up(sizeof(Choice), 16))),
        ends(shares + num_blocks),
        logits(reinterpret_cast<float*>(ends + num_blocks)),
        weights(logits + kSampleBlock) {}
  static std::size_t num_bytes(std::int64_t num_blocks) {
    return static_cast<std::size_t>(round_up(sizeof(Choice), 16) + num_blocks * 16 + 2 * kSampleBlock * 4);
  }
};

/// Returns the row's largest logit, and the first block that has it, to every thread. Returns block 0 if all logits are
/// −inf or NaN.
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

/// Computes ends[b] = shares[0] + … + shares[b], and the total. The first warp does this; each lane sums a 32nd of the
/// blocks.
QRL_DEVICE void sum_in_order(std::int64_t num_blocks, const SamplePlace& place) {
  if (warp_idx() == 0) {
    const std::int64_t count = ceil_div(num_blocks, 32), begin = lane_idx() * count;
    const std::int64_t end = begin + count < num_blocks ? begin + count : num_blocks;
    double sum = 0;
    for (std::int64_t b = begin; b < end; ++b) sum += place.shares[b];
    place.choice.sums[lane_idx()] = sum;
    sync_warp();
    double so_far = 0;
    for (int lane = 0; lane < lane_idx(); ++lane) so_far += place.choice.sums[lane];
    for (std::int64_t b = begin; b < end; ++b) place.ends[b] = so_far += place.shares[b];
    if (lane_idx() == 31) place.choice.total = so_far;
  }
  sync_block();
}

QRL_DEVICE Largest sum_blocks(const SummarizedRows& rows, std::int64_t row, const SamplePlace& place) {
  const float* maxima = rows.block_max + row * rows.num_blocks;
  const float* sums = rows.block_sum + row * rows.num_blocks;
  const double inverse_temperature = rows.settings[row].inverse_temperature;
  const Largest largest = find_largest(maxima, rows.num_blocks, place.choice);
  for (std::int64_t b = thread_idx(); b < rows.num_blocks; b += kThreads) {
    const double away = static_cast<double>(maxima[b]) - static_cast<double>(largest.value);
    place.shares[b] = sums[b] == 0 ? 0.0 : static_cast<double>(sums[b]) * exp(away * inverse_temperature);
  }
  sync_block();
  sum_in_order(rows.num_blocks, place);
  return largest;
}

/// Returns the first block b for which ends[b] exceeds the target. If rounding leaves none, returns the block of the
/// largest logit.
QRL_DEVICE std::int32_t find_block(std::int64_t num_blocks, double target, const Largest& largest,
                                   const SamplePlace& place) {
  constexpr std::int32_t kNone = 0x7fffffff;
  std::int32_t found = kNone;
  for (std::int64_t b = thread_idx(); b < num_blocks && found == kNone; b += kThreads) {
    if (place.ends[b] > target && place.shares[b] > 0) found = static_cast<std::int32_t>(b);
  }
  for (int mask = 16; mask > 0; mask /= 2) {
    const std::int32_t other = shuffle_xor(found, mask);
    found = other < found ? other : found;
  }
  if (lane_idx() == 0) place.choice.block[warp_idx()] = found;
  sync_block();
  for (const std::int32_t of_warp : place.choice.block) found = of_warp < found ? of_warp : found;
  return found == kNone ? largest.block : found;
}

QRL_DEVICE float logprob_of(float logit, const Largest& largest, double inverse_temperature, double total) {
  const double scaled = (static_cast<double>(logit) - static_cast<double>(largest.value)) * inverse_temperature;
  return static_cast<float>(scaled - log(total));
}

QRL_KERNEL void sample_kernel(SampleTask task) {
  wait_for_kernel_before();
  const SummarizedRows& rows = task.rows;
  const SamplePlace place(rows.num_blocks);
  const std::int64_t row = block_x();
  if (task.cuts != nullptr && task.cuts[row].cuts()) return;
  const float* maxima = rows.block_max + row * rows.num_blocks;
  const float* sums = rows.block_sum + row * rows.num_blocks;
  const SampleSettings settings = rows.settings[row];

  const Largest largest = sum_blocks(rows, row, place);
  float maximum = largest.value;  // largest logit of the selected block
  if (!(is_finite(largest.value) && is_finite(place.choice.total))) {
    if (thread_idx() == 0) {
      task.tokens[row] = -1;
      task.logprobs[row] = 0;
    }
    return;
  }
  // Greedy sampling searches the whole block of the largest logit. Otherwise, the uniform number selects a block, then
  // one of its parts, then a token. If rounding puts the number past all weights, the last part (or token) with a
  // weight above 0 is selected.
  std::int64_t begin = largest.block * kSampleBlock, count = kSampleBlock;
  double rest = 0;
  if (settings.greedy == 0) {
    const double target = task.uniforms[row] * place.choice.total;  // below the total
    const std::int32_t block = find_block(rows.num_blocks, target, largest, place);
    maximum = maxima[block];
    rest =
        (target - (block == 0 ? 0 : place.ends[block - 1])) / (place.shares[block] / static_cast<double>(sums[block]));
    const float* part_sums = rows.part_sum + (row * rows.num_blocks + block) * kSampleParts;
    int part = 0;
    double before = 0, before_part = 0;
    for (int p = 0; p < kSampleParts && before <= rest; ++p) {
      if (part_sums[p] <= 0) continue;
      part = p;
      before_part = before;
      before += static_cast<double>(part_sums[p]);
    }
    rest -= before_part;
    begin = block * kSampleBlock + part * kSamplePart;
    count = kSamplePart;
  }
  if (begin + count > rows.vocab_size) count = rows.vocab_size - begin;
  float *logits = place.logits, *weights = place.weights;
  find_logits(rows, row, begin, count, logits);
  sync_block();
  if (thread_idx() < count)
    weights[thread_idx()] = expf((logits[thread_idx()] - maximum) * settings.inverse_temperature);
  sync_block();
  if (thread_idx() != 0) return;
  std::int64_t chosen = 0;
  if (settings.greedy != 0) {
    for (std::int64_t i = 1; i < count; ++i) {
      if (logits[i] > logits[chosen]) chosen = i;
    }
    task.logprobs[row] = 0;
  } else {
    double before = 0;
    for (std::int64_t i = 0; i < count && before <= rest; ++i) {
      if (weights[i] <= 0) continue;
      chosen = i;
      before += static_cast<double>(weights[i]);
    }
    task.logprobs[row] = logprob_of(logits[chosen], largest, settings.inverse_temperature, place.choice.total);
  }
  task.tokens[row] = static_cast<std::int32_t>(begin + chosen);
}

QRL_KERNEL void score_kernel(ScoreTask task) {
  wait_for_kernel_before();
  const SummarizedRows& rows = task.rows;
  const SamplePlace place(rows.num_blocks);
  const std::int64_t row = block_x(), first_block = row * rows.num_blocks;
  const double inverse_temperature = rows.settings[row].inverse_temperature;
  const Largest largest = sum_blocks(rows, row, place);
  const double total = place.choice.total;
  if (!(is_finite(largest.value) && is_finite(total))) {
    if (thread_idx() == 0) task.logprobs[row] = task.entropies[row] = float_of(kNanBits);
    return;
  }
  const std::int64_t target = task.targets[row];
  find_logits(rows, row, target, 1, place.logits);
  // Computes each block's Σ weight · log(weight), with weights relative to the row's largest logit.
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

void summarize_logits(const SummarizeTask& task, std::int64_t num_rows, const Stream& stream) {
  launch(summarize_kernel, {num_rows, ceil_div(task.num_tokens, kWarps * kSampleBlock)}, kThreads, 0, stream, task);
}

void sample_tokens(const SampleTask& task, std::int64_t num_rows, const Stream& stream) {
  launch(sample_kernel, {num_rows}, kThreads, SamplePlace::num_bytes(task.rows.num_blocks), stream, task);
}

void score_tokens(const ScoreTask& task, std::int64_t num_rows, const Stream& stream) {
  launch(score_kernel, {num_rows}, kThreads, SamplePlace::num_bytes(task.rows.num_blocks), stream, task);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
