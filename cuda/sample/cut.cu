// Rows with top-k and top-p. A block finds the candidates of a segment of the vocabulary; then one block a row joins
// them. Both select by radix: digit by digit of the logits' order.
#include <algorithm>

#include "cuda/runtime/layout.h"
#include "cuda/runtime/target.h"
#include "cuda/sample/cut.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

constexpr int kCutThreads = 256;
constexpr int kCutWarps = kCutThreads / 32;
static_assert(kCutThreads == kMostKept && kSegmentTokens % (kCutWarps * kSampleBlock) == 0);
/// Number of digits of 11 bits. A key has two of them, then one of 10 bits.
constexpr int kBins = 1 << 11, kThreadBins = kBins / kCutThreads;

/// Returns a number above 0 with the order of the logits. Zeros of both signs are equal.
QRL_DEVICE std::uint32_t order_of(float logit) {
  const std::uint32_t bits = bits_of(logit + 0.0F);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

/// Returns exp((logit − max) · inverse_temperature) with the bits of the CPU's kernels (exp in ops/kernels/simd.h).
QRL_DEVICE float weight_of(float logit, float max, float inverse_temperature) {
  constexpr float kShift = 0x1.8p23F;
  float x = (logit - max) * inverse_temperature;
  x = x < -105.0F ? -105.0F : x;
  x = x > 89.0F ? 89.0F : x;
  const float shifted = fmaf(x, 1.44269504F, kShift), n = shifted - kShift;
  const float r = fmaf(n, -1.42860677e-6F, fmaf(n, -0.693145752F, x));
  float p = 1.0F / 5040;
  p = fmaf(p, r, 1.0F / 720);
  p = fmaf(p, r, 1.0F / 120);
  p = fmaf(p, r, 1.0F / 24);
  p = fmaf(p, r, 1.0F / 6);
  p = fmaf(p, r, 0.5F);
  p = fmaf(p * r, r, r) + 1.0F;
  // Multiplies by 2ⁿ as two factors, neither of which overflows or underflows alone.
  const int exponent = static_cast<int>(bits_of(shifted) - bits_of(kShift)), half = exponent >> 1;
  const float first = float_of(static_cast<std::uint32_t>(half + 127) << 23);
  return p * first * float_of(static_cast<std::uint32_t>(exponent - half + 127) << 23);
}

/// Returns where key i is in shared memory. A word is skipped after 32 keys, so that threads with ranges of 32 keys
/// read different banks. Skipped words are 0, below all keys.
QRL_DEVICE int padded_at(int i) { return i + i / 32; }
QRL_HD constexpr std::int64_t padded_keys(std::int64_t count) { return count + (count - 1) / 32; }

struct Selection {
  std::uint32_t bins[kBins];  // numbers of keys with a digit
  std::uint32_t sums[2][kCutThreads];
  std::uint32_t threshold, above;  // smallest selected key; number of keys above it
};

/// Returns the sum of the counts of the threads before this one. A half of a count is below 2¹⁶, in sums as well.
QRL_DEVICE std::uint32_t sum_before(std::uint32_t count, Selection& shared) {
  int from = 0;
  shared.sums[from][thread_idx()] = count;
  sync_block();
  for (int step = 1; step < kCutThreads; step *= 2, from = 1 - from) {
    std::uint32_t sum = shared.sums[from][thread_idx()];
    if (thread_idx() >= step) sum += shared.sums[from][thread_idx() - step];
    shared.sums[1 - from][thread_idx()] = sum;
    sync_block();
  }
  return shared.sums[from][thread_idx()] - count;
}

/// Finds the wanted-th largest of `count` keys, with skipped words. Requires wanted keys above 0.
QRL_DEVICE void find_threshold(const std::uint32_t* keys, int count, std::uint32_t wanted, Selection& shared) {
  if (thread_idx() == 0) shared.threshold = shared.above = 0;
  std::uint32_t known = 0;  // bits of the digits found so far
#pragma unroll
  for (int digit = 0; digit < 3; ++digit) {
    const int shift = digit == 0 ? 21 : digit == 1 ? 10 : 0;
    for (int i = thread_idx(); i < kBins; i += kCutThreads) shared.bins[i] = 0;
    sync_block();
    const std::uint32_t found = shared.threshold, above = shared.above;
    for (int i = thread_idx(); i < count; i += kCutThreads) {
      if ((keys[i] & known) == found) count_up(&shared.bins[keys[i] >> shift & (digit == 2 ? 0x3ffU : 0x7ffU)]);
    }
    sync_block();
    const int largest = kBins - 1 - thread_idx() * kThreadBins;  // thread 0 has the largest digits
    std::uint32_t own = 0;
#pragma unroll
    for (int b = 0; b < kThreadBins; ++b) own += shared.bins[largest - b];
    std::uint32_t before = above + sum_before(own, shared);
    if (before < wanted && wanted <= before + own) {
      int bin = largest;
      for (; before + shared.bins[bin] < wanted; --bin) before += shared.bins[bin];
      shared.threshold = found | static_cast<std::uint32_t>(bin) << shift;
      shared.above = before;
    }
    known = 0xffffffffU << shift;
    sync_block();
  }
}

/// Calls take(place, i) for the `wanted` largest of `count` keys: those above the smallest of them, then the first of
/// those equal to it. Both follow the keys' order.
template <class Take>
QRL_DEVICE void take_largest(const std::uint32_t* keys, int count, int wanted, Selection& shared, const Take& take) {
  find_threshold(keys, static_cast<int>(padded_keys(count)), static_cast<std::uint32_t>(wanted), shared);
  const std::uint32_t threshold = shared.threshold;
  const int each = static_cast<int>(ceil_div(count, kCutThreads)), begin = thread_idx() * each;
  const int end = begin + each < count ? begin + each : count;
  std::uint32_t own = 0;  // above the threshold, in the upper half; equal to it
  for (int i = begin; i < end; ++i) {
    const std::uint32_t key = keys[padded_at(i)];
    own += key > threshold ? 1U << 16 : key == threshold ? 1U : 0U;
  }
  const std::uint32_t before = sum_before(own, shared);
  int above = static_cast<int>(before >> 16), equal = static_cast<int>(shared.above + (before & 0xffffU));
  for (int i = begin; i < end; ++i) {
    const std::uint32_t key = keys[padded_at(i)];
    if (key > threshold) take(above++, i);
    else if (key == threshold && equal < wanted) take(equal++, i);
  }
}

/// Sums the weights of a block of logits, in one warp. Like RowSummary's fp64 sums in ops/sample.h, lane l adds tokens
/// l, 32 + l, … in order, and halves of the lanes are added.
QRL_DEVICE double sum_weights(const float* logits, std::int64_t count, float inverse_temperature) {
  float logit[kSampleParts], largest = -INFINITY;
#pragma unroll
  for (int p = 0; p < kSampleParts; ++p) {
    const std::int64_t i = p * kSamplePart + lane_idx();
    logit[p] = i < count ? logits[i] : -INFINITY;
    largest = fmaxf(largest, logit[p]);
  }
  largest = warp_max(largest);
  double sum = 0;
#pragma unroll
  for (int p = 0; p < kSampleParts; ++p) {
    // As in summarize_kernel: NaN for a NaN logit, 0 for one of −inf.
    const float weight = largest != -INFINITY    ? weight_of(logit[p], largest, inverse_temperature)
                         : logit[p] == -INFINITY ? 0.0F
                                                 : logit[p];
    sum += static_cast<double>(weight);
  }
  return warp_sum(sum);
}

QRL_KERNEL void find_candidates_kernel(CandidateTask task) {
  wait_for_kernel_before();
  const std::int64_t row = block_x(), begin = block_y() * kSegmentTokens;
  if (!task.cuts[row].cuts()) return;
  auto& shared = *reinterpret_cast<Selection*>(shared_memory());
  auto* const keys = reinterpret_cast<std::uint32_t*>(shared_memory() + sizeof(Selection));
  const float* logits = task.logits + row * task.stride + begin;
  const std::int64_t rest = task.num_tokens - begin, first_token = task.first_token + begin;
  const int count = static_cast<int>(rest < kSegmentTokens ? rest : kSegmentTokens);
  for (int i = thread_idx(); i < padded_keys(count); i += kCutThreads) {
    const int key = i - i / 33;
    keys[i] = i % 33 == 32 ? 0U : order_of(logits[key]);
  }
  for (std::int64_t block = warp_idx(); block * kSampleBlock < count; block += kCutWarps) {
    const std::int64_t from = block * kSampleBlock;
    const double sum = sum_weights(logits + from, count - from, task.settings[row].inverse_temperature);
    if (lane_idx() == 0) task.block_sum[row * task.num_blocks + first_token / kSampleBlock + block] = sum;
  }
  sync_block();
  Candidate* to = task.candidates + (row * task.num_segments + first_token / kSegmentTokens) * kMostKept;
  const int wanted = count < kMostKept ? count : kMostKept;
  if (thread_idx() >= wanted) to[thread_idx()] = {0, -1};
  take_largest(keys, count, wanted, shared, [&](int place, int i) {
    to[place] = {logits[i], static_cast<std::int32_t>(first_token + i)};
  });
}

/// The likeliest tokens of a row, in descending order; of equal logits, the lower token first.
struct Likeliest {
  std::uint64_t order[kMostKept];  // order_of(logit), then the token's complement
  float logits[kMostKept], weights[kMostKept];
  std::int32_t tokens[kMostKept];
  std::int32_t by_token[kMostKept];  // places in ascending order of tokens
  double sums[32];
  float largest[kCutWarps];
  std::int32_t count;
};

/// Sorts `order` in descending order, and sets logits and tokens. Bitonic, a thread a place.
QRL_DEVICE void sort_likeliest(Likeliest& row) {
  const int at = thread_idx();
  for (int size = 2; size <= kMostKept; size *= 2) {
    for (int step = size / 2; step > 0; step /= 2) {
      sync_block();
      const int other = at ^ step;
      if (other < at) continue;
      const std::uint64_t a = row.order[at], b = row.order[other];
      const bool descends = (at & size) == 0;
      if (descends ? a < b : a > b) {
        row.order[at] = b;
        row.order[other] = a;
      }
    }
  }
  sync_block();
  row.tokens[at] = static_cast<std::int32_t>(~static_cast<std::uint32_t>(row.order[at]));
  const auto key = static_cast<std::uint32_t>(row.order[at] >> 32);
  row.logits[at] = float_of((key & 0x80000000U) != 0 ? key & 0x7fffffffU : ~key);
}

/// Sets by_token for the first `count` places. All threads must call it.
QRL_DEVICE void order_by_token(Likeliest& row, int count) {
  sync_block();
  if (thread_idx() < count) {
    const std::int32_t token = row.tokens[thread_idx()];
    int rank = 0;
    for (int i = 0; i < count; ++i) rank += row.tokens[i] < token ? 1 : 0;
    row.by_token[rank] = thread_idx();
  }
  sync_block();
}

/// Returns the sum of the first `count` places' weights, in the order of tokens.
QRL_DEVICE double mass_of(const Likeliest& row, int count) {
  double mass = 0;
  for (int i = 0; i < count; ++i) mass += static_cast<double>(row.weights[row.by_token[i]]);
  return mass;
}

/// Returns the row's largest logit to every thread.
QRL_DEVICE float find_largest_logit(const float* maxima, std::int64_t num_blocks, float* of_warps) {
  float largest = -INFINITY;
  for (std::int64_t b = thread_idx(); b < num_blocks; b += kCutThreads) largest = fmaxf(largest, maxima[b]);
  largest = warp_max(largest);
  if (lane_idx() == 0) of_warps[warp_idx()] = largest;
  sync_block();
  for (int warp = 0; warp < kCutWarps; ++warp) largest = fmaxf(largest, of_warps[warp]);
  return largest;
}

/// Returns Σ sum · exp((maximum − largest) / temperature) over blocks to every thread, in fp64: 32 groups of blocks,
/// each in order, then the groups in order. shares: [num_blocks].
template <class Sum>
QRL_DEVICE double sum_row(const float* maxima, const Sum* block_sums, std::int64_t num_blocks, float largest,
                          double inverse_temperature, double* shares, double* of_groups) {
  for (std::int64_t b = thread_idx(); b < num_blocks; b += kCutThreads) {
    const double away = static_cast<double>(maxima[b]) - static_cast<double>(largest);
    const auto sum = static_cast<double>(block_sums[b]);
    shares[b] = sum == 0 ? 0.0 : sum * exp(away * inverse_temperature);
  }
  sync_block();
  if (warp_idx() == 0) {
    const std::int64_t each = ceil_div(num_blocks, 32), begin = lane_idx() * each;
    const std::int64_t end = begin + each < num_blocks ? begin + each : num_blocks;
    double sum = 0;
    for (std::int64_t b = begin; b < end; ++b) sum += shares[b];
    of_groups[lane_idx()] = sum;
  }
  sync_block();
  double total = 0;
  for (int group = 0; group < 32; ++group) total += of_groups[group];
  return total;
}

struct Cut {
  int count;        // tokens kept
  bool is_limited;  // whether max_kept excluded tokens
};

/// Returns how many of the likeliest tokens are kept (left_by_cuts in ops/dispatch/sample.cpp). top-k left `left`
/// tokens with weights of `total`, of which `there` are in `row`.
QRL_DEVICE Cut cut_of(const Likeliest& row, const RowCuts& cuts, std::int64_t left, int there, double total,
                      std::int64_t vocab_size) {
  if (cuts.top_p >= 1) return {left < cuts.max_kept ? static_cast<int>(left) : cuts.max_kept, left > cuts.max_kept};
  const double top_p = cuts.top_p, wanted = top_p * total;
  const double negligible = cuts.top_k > 0 ? -1 : 0.5 * (1.0 - top_p) * total / static_cast<double>(vocab_size);
  double mass = 0;
  int count = 0;
  for (; count < there && mass < wanted; ++count) {
    const auto weight = static_cast<double>(row.weights[count]);
    if (weight < negligible) return {count, false};
    if (count == cuts.max_kept) return {count, true};
    mass += weight;
  }
  return {count, mass < wanted && there < left};
}

/// Lays out the shared memory of a row's block.
struct RowPlace {
  Selection& selection;
  Likeliest& row;
  double* shares;
  std::uint32_t* keys;
  QRL_DEVICE explicit RowPlace(std::int64_t num_blocks)
      : selection(*reinterpret_cast<Selection*>(shared_memory())),
        row(*reinterpret_cast<Likeliest*>(shared_memory() + round_up(sizeof(Selection), 16))),
        shares(reinterpret_cast<double*>(shared_memory() + kFixedBytes)),
        keys(reinterpret_cast<std::uint32_t*>(shares + num_blocks)) {}
  static constexpr std::int64_t kFixedBytes = round_up(sizeof(Selection), 16) + round_up(sizeof(Likeliest), 16);
};

/// Finds the row's likeliest tokens and their weights.
QRL_DEVICE void join_candidates(const CutTask& task, std::int64_t row, float largest, int there,
                                const RowPlace& place) {
  const Candidate* candidates = task.candidates + row * task.num_segments * kMostKept;
  const int count = static_cast<int>(task.num_segments) * kMostKept;
  for (int i = thread_idx(); i < padded_keys(count); i += kCutThreads) {
    if (i % 33 == 32) {
      place.keys[i] = 0;
      continue;
    }
    const Candidate candidate = candidates[i - i / 33];
    place.keys[i] = candidate.token < 0 ? 0U : order_of(candidate.logit);
  }
  place.row.order[thread_idx()] = 0;
  sync_block();
  take_largest(place.keys, count, there, place.selection, [&](int at, int i) {
    const auto token = static_cast<std::uint32_t>(candidates[i].token);
    place.row.order[at] = static_cast<std::uint64_t>(place.keys[padded_at(i)]) << 32 | (0xffffffffU - token);
  });
  sort_likeliest(place.row);
  place.row.weights[thread_idx()] =
      thread_idx() < there ? weight_of(place.row.logits[thread_idx()], largest, task.settings[row].inverse_temperature)
                           : 0.0F;
}

QRL_DEVICE float kept_logprob(float logit, float largest, double inverse_temperature, double mass) {
  const double scaled = (static_cast<double>(logit) - static_cast<double>(largest)) * inverse_temperature;
  return static_cast<float>(scaled - log(mass));
}

QRL_KERNEL void sample_candidates_kernel(CutTask task) {
  wait_for_kernel_before();
  const std::int64_t row_idx = block_x();
  const RowCuts cuts = task.cuts[row_idx];
  if (!cuts.cuts()) {
    if (thread_idx() == 0) task.num_kept[row_idx] = 0;
    return;
  }
  const RowPlace place(task.num_blocks);
  Likeliest& row = place.row;
  const float* maxima = task.block_max + row_idx * task.num_blocks;
  const double inverse_temperature = task.settings[row_idx].inverse_temperature;
  const float largest = find_largest_logit(maxima, task.num_blocks, row.largest);
  double total = sum_row(maxima, task.block_sum + row_idx * task.num_blocks, task.num_blocks, largest,
                         inverse_temperature, place.shares, row.sums);
  if (!(is_finite(largest) && is_finite(total))) {
    if (thread_idx() != 0) return;
    task.tokens[row_idx] = -1;
    task.logprobs[row_idx] = 0;
    task.num_kept[row_idx] = 0;
    return;
  }
  const std::int64_t left = cuts.top_k > 0 ? cuts.top_k : task.vocab_size;
  const int found = task.vocab_size < kMostKept ? static_cast<int>(task.vocab_size) : kMostKept;
  const int there = left < found ? static_cast<int>(left) : found;
  join_candidates(task, row_idx, largest, found, place);
  if (cuts.top_k > 0 && cuts.top_p < 1) {
    order_by_token(row, there);
    total = mass_of(row, there);
  }
  sync_block();
  const Cut cut = cut_of(row, cuts, left, there, total, task.vocab_size);
  order_by_token(row, cut.count);
  if (thread_idx() < cut.count) task.kept[row_idx * kMostKept + thread_idx()] = row.tokens[row.by_token[thread_idx()]];
  if (thread_idx() != 0) return;
  const double mass = mass_of(row, cut.count), target = task.uniforms[row_idx] * mass;
  double before = 0;
  int chosen = 0;
  for (int i = 0; i < cut.count; ++i) {
    const int at = row.by_token[i];
    if (row.weights[at] <= 0) continue;
    chosen = at;
    before += static_cast<double>(row.weights[at]);
    if (before > target) break;
  }
  task.tokens[row_idx] = row.tokens[chosen];
  task.logprobs[row_idx] = kept_logprob(row.logits[chosen], largest, inverse_temperature, mass);
  task.num_kept[row_idx] = cut.is_limited ? -1 - cut.count : cut.count;
}

QRL_KERNEL void gather_kept_kernel(KeptLogitsTask task) {
  wait_for_kernel_before();
  const std::int64_t row = block_x(), at = row * kMostKept + thread_idx();
  if (thread_idx() >= task.num_kept[row]) return;
  const std::int64_t place = task.kept[at] - task.first_token;
  if (0 <= place && place < task.num_tokens) task.kept_logits[at] = task.logits[row * task.stride + place];
}

struct KeptRow {
  double sums[32];
  float logits[kMostKept], weights[kMostKept];
  float largest[kCutWarps];
  std::int32_t target;
};

QRL_KERNEL void score_kept_kernel(ScoreKeptTask task) {
  wait_for_kernel_before();
  auto& shared = *reinterpret_cast<KeptRow*>(shared_memory());
  auto* const shares = reinterpret_cast<double*>(shared_memory() + round_up(sizeof(KeptRow), 16));
  const std::int64_t row = block_x(), at = row * kMostKept + thread_idx();
  const float* maxima = task.block_max + row * task.num_blocks;
  const SampleSettings settings = task.settings[row];
  const double inverse_temperature = settings.inverse_temperature;
  const float largest = find_largest_logit(maxima, task.num_blocks, shared.largest);
  const double total = sum_row(maxima, task.block_sum + row * task.num_blocks, task.num_blocks, largest,
                               inverse_temperature, shares, shared.sums);
  if (!(is_finite(largest) && is_finite(total))) {
    if (thread_idx() == 0) task.logprobs[row] = task.entropies[row] = float_of(kNanBits);
    return;
  }
  const int count = task.num_kept[row];
  if (thread_idx() < count) {
    shared.logits[thread_idx()] = task.kept_logits[at];
    shared.weights[thread_idx()] = weight_of(task.kept_logits[at], largest, settings.inverse_temperature);
    if (task.kept[at] == task.targets[row]) shared.target = thread_idx();
  }
  sync_block();
  if (thread_idx() != 0) return;
  double mass = 0, weighted = 0;
  for (int i = 0; i < count; ++i) {
    const double weight = shared.weights[i];
    mass += weight;
    const double z = (static_cast<double>(shared.logits[i]) - static_cast<double>(largest)) * inverse_temperature;
    if (weight > 0) weighted += weight * z;
  }
  task.logprobs[row] = kept_logprob(shared.logits[shared.target], largest, inverse_temperature, mass);
  task.entropies[row] = static_cast<float>(log(mass) - weighted / mass);
}

}  // namespace

void find_candidates(const CandidateTask& task, std::int64_t num_rows, const Stream& stream) {
  const auto bytes = static_cast<std::size_t>(static_cast<std::int64_t>(sizeof(Selection)) +
                                              4 * padded_keys(std::min(task.num_tokens, kSegmentTokens)));
  launch(find_candidates_kernel, {num_rows, ceil_div(task.num_tokens, kSegmentTokens)}, kCutThreads, bytes, stream,
         task);
}

std::int64_t cut_bytes(std::int64_t num_blocks, std::int64_t num_segments) {
  return RowPlace::kFixedBytes + 8 * num_blocks + 4 * padded_keys(num_segments * kMostKept);
}

void sample_candidates(const CutTask& task, std::int64_t num_rows, const Stream& stream) {
  launch(sample_candidates_kernel, {num_rows}, kCutThreads,
         static_cast<std::size_t>(cut_bytes(task.num_blocks, task.num_segments)), stream, task);
}

void gather_kept_logits(const KeptLogitsTask& task, std::int64_t num_rows, const Stream& stream) {
  launch(gather_kept_kernel, {num_rows}, kCutThreads, 0, stream, task);
}

void score_kept(const ScoreKeptTask& task, std::int64_t num_rows, const Stream& stream) {
  launch(score_kept_kernel, {num_rows}, kCutThreads,
         static_cast<std::size_t>(round_up(sizeof(KeptRow), 16) + 8 * task.num_blocks), stream, task);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
