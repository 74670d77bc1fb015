#include "ops/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/kernels/kernels.h"

namespace qrl::ops {

namespace {

constexpr std::int64_t kBlock = 1024;  // tokens whose weights are summed in fp32

/// A row's distribution before any cut: weight of a token = exp((logit − max) / temperature).
struct Weights {
  const float* logits;
  std::int64_t vocab_size;
  float max;
  float inverse_temperature;
};

/// Weights of one block; returns how many there are.
std::int64_t block_weights(const Weights& row, std::int64_t begin, float* weights) {
  const std::int64_t count = std::min(kBlock, row.vocab_size - begin);
  kernels().exp_weights(row.logits + begin, count, row.max, row.inverse_temperature, weights);
  return count;
}

float logprob_of(const Weights& row, std::int32_t token, double total) {
  const double logit = (static_cast<double>(row.logits[token]) - row.max) * row.inverse_temperature;
  return static_cast<float>(logit - std::log(total));
}

/// Inverse CDF over the whole vocabulary: the block by the sums, then the token inside it. The target is below the
/// total of the same sums, so the block has weight; where rounding leaves the target behind all weights of the block,
/// the last one above zero is the token.
std::int32_t pick(const Weights& row, std::span<const double> block_sums, double target) {
  std::size_t block = 0;
  double before = 0;
  while (block + 1 < block_sums.size() && before + block_sums[block] <= target) before += block_sums[block++];
  const std::int64_t begin = static_cast<std::int64_t>(block) * kBlock;
  float weights[kBlock];
  const std::int64_t count = block_weights(row, begin, weights);
  std::int64_t chosen = 0;
  for (std::int64_t i = 0; i < count && before <= target; ++i) {
    if (weights[i] <= 0) continue;
    chosen = i;
    before += static_cast<double>(weights[i]);
  }
  return static_cast<std::int32_t>(begin + chosen);
}

/// The tokens that top-k and top-p leave, in index order.
std::vector<std::int32_t> kept_tokens(const Weights& row, const DrawParams& params, const std::vector<float>& weights,
                                      double total) {
  const auto descending = [&](std::int32_t a, std::int32_t b) {
    // By logit, not weight: far below the maximum weights underflow and would tie.
    return row.logits[a] > row.logits[b] || (row.logits[a] == row.logits[b] && a < b);
  };
  const bool by_count = params.top_k > 0 && params.top_k < row.vocab_size;
  // With N tokens, those below a mass of (1 − p)/N together miss less than 1 − p: they cannot be needed. Halved against
  // rounding. Only without top-k, which changes the total.
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
    // A heap gives the prefix in order without sorting what is behind it.
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

/// Weights of all tokens, in memory of this thread, and their sum.
double all_weights(const Weights& row, std::vector<float>*& weights) {
  thread_local std::vector<float> memory;
  memory.resize(static_cast<std::size_t>(row.vocab_size));
  weights = &memory;
  kernels().exp_weights(row.logits, row.vocab_size, row.max, row.inverse_temperature, memory.data());
  double total = 0;
  for (const float weight : memory) total += static_cast<double>(weight);
  return total;
}

/// What top-k and top-p leave of a row.
struct Kept {
  std::vector<std::int32_t> tokens;  ///< ascending
  std::vector<float>* weights;       ///< of all tokens
  double mass = 0;                   ///< of those kept
};
Kept kept_of(const Weights& row, const DrawParams& params, double total) {
  Kept kept;
  (void)all_weights(row, kept.weights);
  kept.tokens = kept_tokens(row, params, *kept.weights, total);
  for (const std::int32_t token : kept.tokens)
    kept.mass += static_cast<double>((*kept.weights)[static_cast<std::size_t>(token)]);
  return kept;
}

Draw draw_cut(const Weights& row, const DrawParams& params, double total, double uniform) {
  const Kept kept = kept_of(row, params, total);
  double before = 0;
  std::int32_t chosen = -1;
  for (const std::int32_t token : kept.tokens) {
    const float weight = (*kept.weights)[static_cast<std::size_t>(token)];
    if (weight <= 0) continue;
    chosen = token;
    before += static_cast<double>(weight);
    if (before > uniform * kept.mass) break;
  }
  return {chosen, logprob_of(row, chosen, kept.mass)};
}

/// The row before any cut, its blocks' sums of weights and their total. Throws unless a logit is finite and none is NaN
/// or +inf.
Weights weigh(const float* logits, std::int64_t vocab_size, const DrawParams& params, std::vector<double>& block_sums,
              double& total) {
  const float max = kernels().max_value(logits, vocab_size);
  const Weights row{logits, vocab_size, max, params.temperature == 0 ? 1.0F : 1.0F / params.temperature};
  block_sums.clear();
  total = 0;
  for (std::int64_t begin = 0; begin < vocab_size; begin += kBlock) {
    const std::int64_t count = std::min(kBlock, vocab_size - begin);
    block_sums.push_back(kernels().exp_sum(logits + begin, count, max, row.inverse_temperature));
    total += block_sums.back();
  }
  // A NaN among the logits makes its block's sum NaN, an infinite maximum makes its own weight NaN.
  QRL_INVARIANT(std::isfinite(max) && std::isfinite(total), "draw",
                "logits that are finite or -inf, one of them finite",
                "maximum " + std::to_string(max) + ", sum of exp " + std::to_string(total),
                "the weights or the forward pass are broken");
  return row;
}

bool cuts(const DrawParams& params) { return params.top_k != -1 || params.top_p < 1.0F; }

}  // namespace

void exclude_cut_tokens(float* logits, std::int64_t vocab_size, const DrawParams& params, std::int32_t always_kept) {
  if (params.temperature == 0 || !cuts(params)) return;
  const Weights row{logits, vocab_size, kernels().max_value(logits, vocab_size), 1.0F / params.temperature};
  std::vector<float>* weights = nullptr;
  const double total = all_weights(row, weights);
  const std::vector<std::int32_t> kept = kept_tokens(row, params, *weights, total);
  auto next = kept.begin();
  for (std::int32_t token = 0; token < vocab_size; ++token) {
    if (next != kept.end() && *next == token) ++next;
    else if (token != always_kept) logits[token] = -std::numeric_limits<float>::infinity();
  }
}

Draw draw(const float* logits, std::int64_t vocab_size, const DrawParams& params, double uniform) {
  QRL_INVARIANT(vocab_size > 0 && params.temperature >= 0 && params.top_p > 0 && params.top_p <= 1 &&
                    (params.top_k == -1 || params.top_k > 0) && uniform >= 0 && uniform < 1,
                "draw", "temperature >= 0, top_p in (0, 1], top_k -1 or above 0, uniform in [0, 1)",
                "temperature " + std::to_string(params.temperature) + ", top_p " + std::to_string(params.top_p) +
                    ", top_k " + std::to_string(params.top_k) + ", uniform " + std::to_string(uniform));
  thread_local std::vector<double> block_sums;
  double total = 0;
  const Weights row = weigh(logits, vocab_size, params, block_sums, total);
  if (params.temperature == 0)
    return {static_cast<std::int32_t>(std::find(logits, logits + vocab_size, row.max) - logits), 0.0F};
  if (cuts(params)) return draw_cut(row, params, total, uniform);
  const std::int32_t token = pick(row, block_sums, uniform * total);
  return {token, logprob_of(row, token, total)};
}

float logprob(const float* logits, std::int64_t vocab_size, const DrawParams& params, std::int32_t token) {
  QRL_INVARIANT(params.temperature > 0 && 0 <= token && token < vocab_size, "logprob",
                "a temperature above 0 and a token of the vocabulary", std::to_string(token));
  thread_local std::vector<double> block_sums;
  double total = 0;
  const Weights row = weigh(logits, vocab_size, params, block_sums, total);
  if (!cuts(params)) return logprob_of(row, token, total);
  const Kept kept = kept_of(row, params, total);
  const bool drawable = std::binary_search(kept.tokens.begin(), kept.tokens.end(), token);
  return drawable ? logprob_of(row, token, kept.mass) : -std::numeric_limits<float>::infinity();
}

}  // namespace qrl::ops
