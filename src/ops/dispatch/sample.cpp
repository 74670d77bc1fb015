#include "ops/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "ops/kernels/kernels.h"

namespace qrl::ops {

namespace {

/// Describes a row's distribution before top-k and top-p: weights exp((logit − max) / temperature).
struct Weights {
  const float* logits;
  std::int64_t vocab_size;
  float max;
  float inverse_temperature;
};

float logprob_of(const Weights& row, std::int32_t token, double mass) {
  const double logit = (static_cast<double>(row.logits[token]) - row.max) * row.inverse_temperature;
  return static_cast<float>(logit - std::log(mass));
}

/// Compares logits, because small weights underflow. Among equal logits, the lower index is likelier.
bool likelier(const Weights& row, std::int32_t a, std::int32_t b) {
  return row.logits[a] > row.logits[b] || (row.logits[a] == row.logits[b] && a < b);
}

/// Returns the tokens kept by top-k and top-p, in index order.
std::vector<std::int32_t> left_by_cuts(const Weights& row, const SampleParams& params,
                                       const std::vector<float>& weights, double total) {
  const auto descending = [&](std::int32_t a, std::int32_t b) { return likelier(row, a, b); };
  const bool by_count = params.top_k > 0 && params.top_k < row.vocab_size;
  // Skips tokens with a probability below (1 − p)/N. Together they have less than 1 − p, so top-p never keeps them.
  // Half this bound allows for rounding. With top-k, which changes the total, skips none.
  const double negligible = by_count ? -1 : 0.5 * (1.0 - params.top_p) * total / static_cast<double>(row.vocab_size);
  std::vector<std::int32_t> kept;
  for (std::int64_t i = 0; i < row.vocab_size; ++i) {
    if (static_cast<double>(weights[static_cast<std::size_t>(i)]) >= negligible) {
      kept.push_back(static_cast<std::int32_t>(i));
    }
  }
  if (by_count) {
    std::nth_element(kept.begin(), kept.begin() + params.top_k, kept.end(), descending);
    kept.resize(static_cast<std::size_t>(params.top_k));
    std::sort(kept.begin(), kept.end());
    total = 0;
    for (const std::int32_t token : kept) total += static_cast<double>(weights[static_cast<std::size_t>(token)]);
  }
  if (params.top_p < 1.0F) {
    const auto below = [&](std::int32_t a, std::int32_t b) { return descending(b, a); };
    std::make_heap(kept.begin(), kept.end(), below);
    double mass = 0;
    auto heap_end = kept.end();
    while (heap_end != kept.begin() && mass < static_cast<double>(params.top_p) * total) {
      std::pop_heap(kept.begin(), heap_end, below);
      mass += static_cast<double>(weights[static_cast<std::size_t>(*--heap_end)]);
    }
    kept.erase(kept.begin(), heap_end);
    std::sort(kept.begin(), kept.end());
  }
  return kept;
}

void limit(const Weights& row, std::int32_t count, std::vector<std::int32_t>& tokens) {
  std::nth_element(tokens.begin(), tokens.begin() + count, tokens.end(),
                   [&](std::int32_t a, std::int32_t b) { return likelier(row, a, b); });
  tokens.resize(static_cast<std::size_t>(count));
  std::sort(tokens.begin(), tokens.end());
}

/// Returns all tokens' weights, valid until this thread's next call.
const std::vector<float>& all_weights(const Weights& row) {
  thread_local std::vector<float> memory;
  memory.resize(static_cast<std::size_t>(row.vocab_size));
  kernels().exp_weights(row.logits, row.vocab_size, row.max, row.inverse_temperature, memory.data());
  return memory;
}

double mass_of(const std::vector<float>& weights, std::span<const std::int32_t> tokens) {
  double mass = 0;
  for (const std::int32_t token : tokens) mass += static_cast<double>(weights[static_cast<std::size_t>(token)]);
  return mass;
}

SampledToken sample_cut(const Weights& row, const SampleParams& params, double total, double uniform) {
  const std::vector<float>& weights = all_weights(row);
  SampledToken sampled;
  std::vector<std::int32_t> kept = left_by_cuts(row, params, weights, total);
  sampled.limited = params.max_kept > 0 && std::ssize(kept) > params.max_kept;
  if (sampled.limited) limit(row, params.max_kept, kept);
  const double mass = mass_of(weights, kept);
  double before = 0;
  sampled.token = -1;
  for (const std::int32_t token : kept) {
    const float weight = weights[static_cast<std::size_t>(token)];
    if (weight <= 0) continue;
    sampled.token = token;
    before += static_cast<double>(weight);
    if (before > uniform * mass) break;
  }
  sampled.logprob = logprob_of(row, sampled.token, mass);
  if (params.max_kept > 0) sampled.kept = std::move(kept);
  return sampled;
}

/// Returns NaN if a logit is NaN, else 0. max_value may ignore NaN.
double nan_of(const float* logits, std::int64_t count) {
  const bool any = std::any_of(logits, logits + count, [](float x) { return std::isnan(x); });
  return any ? std::numeric_limits<double>::quiet_NaN() : 0.0;
}

/// Sums a block's weights in fp64: each 32nd weight in order, then halves of the 32 sums.
double fixed_sum(const float* logits, std::int64_t count, float max, float inverse_temperature) {
  float weights[kSampleBlock];
  kernels().exp_weights(logits, count, max, inverse_temperature, weights);
  std::fill(weights + count, weights + kSampleBlock, 0.0F);
  double sums[32] = {};
  for (std::int64_t i = 0; i < kSampleBlock; i += 32)
    for (std::int64_t lane = 0; lane < 32; ++lane) sums[lane] += static_cast<double>(weights[i + lane]);
  for (std::int64_t half = 16; half > 0; half /= 2)
    for (std::int64_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  return sums[0];
}

/// Returns a row's summary, valid until this thread's next call.
const RowSummary& summarize(const float* logits, std::int64_t vocab_size, float temperature, SampleSums sums) {
  thread_local RowSummary row;
  row.begin(temperature, sums);
  row.take(logits, vocab_size);
  row.end();
  return row;
}

}  // namespace

void RowSummary::begin(float temperature, SampleSums sums) {
  sums_ = sums;
  greedy_ = temperature == 0;
  inverse_temperature_ = greedy_ ? 1.0F : 1.0F / temperature;
  max_ = -std::numeric_limits<float>::infinity();
  num_taken_ = best_block_ = 0;
  blocks_.clear();
}

void RowSummary::take(const float* logits, std::int64_t count) {
  QRL_INVARIANT(num_taken_ % kSampleBlock == 0, "sample", "whole blocks of logits except for the last",
                std::to_string(num_taken_) + " so far");
  for (std::int64_t begin = 0; begin < count; begin += kSampleBlock) {
    const std::int64_t size = std::min(kSampleBlock, count - begin);
    const float max = kernels().max_value(logits + begin, size);
    // Skips a block of only −inf, where exp(−inf − −inf) would be NaN.
    const bool possible = !(max == -std::numeric_limits<float>::infinity());
    double sum = 0;
    if (possible && sums_ == SampleSums::fixed) sum = fixed_sum(logits + begin, size, max, inverse_temperature_);
    else if (possible) sum = static_cast<double>(kernels().exp_sum(logits + begin, size, max, inverse_temperature_));
    if (max > max_) {
      max_ = max;
      best_block_ = static_cast<std::int64_t>(blocks_.size());
    }
    blocks_.push_back({max, possible ? sum : nan_of(logits + begin, size)});
  }
  num_taken_ += count;
}

double RowSummary::share(const Block& block) const {
  if (block.sum == 0) return 0;
  return block.sum * std::exp((static_cast<double>(block.max) - static_cast<double>(max_)) * inverse_temperature_);
}

void RowSummary::end() {
  total_ = 0;
  // With fixed sums, of 32 groups of blocks; else of all blocks in one.
  const std::size_t group = sums_ == SampleSums::fixed ? (blocks_.size() + 31) / 32 : blocks_.size();
  for (std::size_t begin = 0; begin < blocks_.size(); begin += group) {
    double sum = 0;
    for (std::size_t b = begin; b < std::min(begin + group, blocks_.size()); ++b) sum += share(blocks_[b]);
    total_ += sum;
  }
  // A NaN logit makes total_ NaN; a +inf logit makes max_ infinite.
  if (!std::isfinite(max_) || !std::isfinite(total_))
    fail_logits(base::format("maximum %g, sum of exp %g", static_cast<double>(max_), total_));
}

RowSummary::Place RowSummary::place(double uniform) const {
  // The search ends in a block with a sum above 0, because the target is below total_.
  std::size_t block = static_cast<std::size_t>(best_block_);
  double rest = 0;
  if (!greedy_) {
    const double target = uniform * total_;
    double before = 0;
    for (block = 0; block + 1 < blocks_.size(); ++block) {
      const double next = before + share(blocks_[block]);
      if (next > target) break;
      before = next;
    }
    const double unit = share(blocks_[block]) / blocks_[block].sum;
    rest = (target - before) / unit;
  }
  const std::int64_t begin = static_cast<std::int64_t>(block) * kSampleBlock;
  return {begin, std::min(kSampleBlock, num_taken_ - begin), rest};
}

float RowSummary::logprob(float logit) const {
  const double scaled = (static_cast<double>(logit) - static_cast<double>(max_)) * inverse_temperature_;
  return static_cast<float>(scaled - std::log(total_));
}

SampledToken RowSummary::sample(const Place& place, const float* block_logits) const {
  const auto token = [&](std::int64_t i) { return static_cast<std::int32_t>(place.begin + i); };
  if (greedy_) return {token(std::find(block_logits, block_logits + place.count, max_) - block_logits), 0.0F};
  const float max = blocks_[static_cast<std::size_t>(place.begin / kSampleBlock)].max;
  float weights[kSampleBlock];
  kernels().exp_weights(block_logits, place.count, max, inverse_temperature_, weights);
  // If rounding puts the target past the last weight, chooses the last token with a weight above 0.
  double before = 0;
  std::int64_t chosen = 0;
  for (std::int64_t i = 0; i < place.count && before <= place.rest; ++i) {
    if (weights[i] <= 0) continue;
    chosen = i;
    before += static_cast<double>(weights[i]);
  }
  return {token(chosen), logprob(block_logits[chosen])};
}

void fail_logits(const std::string& got) {
  base::fail_input("the model's logits", "finite numbers or -inf, one of them finite", got,
                   "its weights make the forward pass overflow: sample from another model or checkpoint");
}

void keep_only(float* logits, std::int64_t vocab_size, std::span<const std::int32_t> kept) {
  if (kept.empty()) return;
  std::int64_t next = 0;
  for (const std::int32_t token : kept) {
    std::fill(logits + next, logits + token, -std::numeric_limits<float>::infinity());
    next = token + 1;
  }
  std::fill(logits + next, logits + vocab_size, -std::numeric_limits<float>::infinity());
}

SampledToken sample(const float* logits, std::int64_t vocab_size, const SampleParams& params, double uniform) {
  QRL_INVARIANT(vocab_size > 0 && params.temperature >= 0 && params.top_p > 0 && params.top_p <= 1 &&
                    (params.top_k == -1 || params.top_k > 0) && params.max_kept >= 0 && uniform >= 0 && uniform < 1,
                "sample", "temperature >= 0, top_p in (0, 1], top_k -1 or above 0, max_kept >= 0, uniform in [0, 1)",
                "temperature " + std::to_string(params.temperature) + ", top_p " + std::to_string(params.top_p) +
                    ", top_k " + std::to_string(params.top_k) + ", uniform " + std::to_string(uniform));
  const RowSummary& row =
      summarize(logits, vocab_size, params.temperature, params.cuts() ? SampleSums::fixed : SampleSums::by_vectors);
  if (params.cuts()) {
    return sample_cut({logits, vocab_size, row.max(), row.inverse_temperature()}, params, row.total(), uniform);
  }
  const RowSummary::Place place = row.place(uniform);
  return row.sample(place, logits + place.begin);
}

float logprob(const float* logits, std::int64_t vocab_size, float temperature, std::int32_t token,
              std::span<const std::int32_t> kept) {
  QRL_INVARIANT(temperature > 0 && 0 <= token && token < vocab_size, "logprob",
                "a temperature above 0 and a token of the vocabulary", std::to_string(token));
  const RowSummary& summary = summarize(logits, vocab_size, temperature, SampleSums::by_vectors);
  if (kept.empty()) return summary.logprob(logits[token]);
  if (!std::binary_search(kept.begin(), kept.end(), token)) return -std::numeric_limits<float>::infinity();
  const Weights row{logits, vocab_size, summary.max(), summary.inverse_temperature()};
  return logprob_of(row, token, mass_of(all_weights(row), kept));
}

}  // namespace qrl::ops
