// Tests that the decoder's samples follow the distribution that its log-probs report.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "decoder/fixtures.h"
#include "decoder/reference.h"
#include "support/catch.h"

namespace {

using namespace qrl;
using namespace qrl::decoder;
using namespace qrl::decoder::test;
using types::TokenId;

constexpr std::size_t kVocabSize = 67;

/// Applies temperature, softmax, top-k, then top-p to the renormalized rest, in fp64.
std::vector<double> distribution(const double* logits, const types::SamplingParams& params) {
  std::vector<std::size_t> order(kVocabSize);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  if (params.top_k > 0) order.resize(static_cast<std::size_t>(params.top_k));
  std::vector<double> kept(kVocabSize, 0.0);
  double total = 0;
  for (const std::size_t token : order) {
    total += kept[token] = std::exp((logits[token] - logits[order.front()]) / static_cast<double>(params.temperature));
  }
  double mass = 0;
  for (const std::size_t token : order) {
    if (mass >= static_cast<double>(params.top_p) * total) kept[token] = 0;
    mass += kept[token];
  }
  const double rest = std::accumulate(kept.begin(), kept.end(), 0.0);
  for (double& p : kept) p /= rest;
  return kept;
}

/// Returns the number of standard deviations by which χ² of these counts exceeds its mean (Wilson–Hilferty). Cells with
/// an expected count below 5 are merged; a count in a cell of probability zero is infinitely unlikely.
double chi_squared_z(const std::vector<std::size_t>& counts, const std::vector<double>& probabilities) {
  const auto total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  double chi_squared = 0, rare_count = 0, rare_expected = 0;
  int num_cells = 0;
  const auto add_cell = [&](double count, double expected) {
    chi_squared += (count - expected) * (count - expected) / expected;
    ++num_cells;
  };
  for (std::size_t token = 0; token < counts.size(); ++token) {
    const double expected = probabilities[token] * total;
    const auto count = static_cast<double>(counts[token]);
    if (expected == 0 && count > 0) return INFINITY;
    if (expected >= 5) add_cell(count, expected);
    else rare_count += count, rare_expected += expected;
  }
  if (rare_expected > 0) add_cell(rare_count, rare_expected);
  REQUIRE(num_cells >= 3);
  const double k = num_cells - 1;
  return (std::cbrt(chi_squared / k) - (1 - 2 / (9 * k))) / std::sqrt(2 / (9 * k));
}

}  // namespace

TEST_CASE("sampling: first and second tokens of 20,000 samples follow their distributions and log-probs") {
  const model::ModelConfig config = tiny_config();
  const auto snapshot = publish(config, tiny_weights(config), quant::Format::f32);
  Decoder decoder(config, {.page_size = 4, .kv_pages = 1000, .max_model_len = 16, .kv_format = quant::KvFormat::f32});
  decoder.load(*snapshot);
  const std::vector<TokenId> prompt{3, 1, 4, 1, 5};
  std::map<std::vector<TokenId>, std::vector<double>> logits_of;  // by the tokens before the sampled one

  for (const types::SamplingParams& params :
       {types::SamplingParams{.temperature = 1.0F}, types::SamplingParams{.temperature = 0.7F},
        types::SamplingParams{.temperature = 1.3F, .top_k = 9},
        types::SamplingParams{.temperature = 1.5F, .top_p = 0.8F},
        types::SamplingParams{.temperature = 1.2F, .top_p = 0.9F, .top_k = 20, .max_kept = 256}}) {
    CAPTURE(params.temperature, params.top_p, params.top_k);
    types::SamplingParams two = params;
    two.max_new_tokens = 2;
    const types::SampleRequest request{6, prompt, 0, 20000};
    const auto completions = decoder.complete({&request, 1}, two, {42, 1});

    const auto distribution_after = [&](const std::vector<TokenId>& drawn) {
      std::vector<double>& logits = logits_of[drawn];
      if (logits.empty()) {
        std::vector<TokenId> tokens = prompt;
        tokens.insert(tokens.end(), drawn.begin(), drawn.end());
        const auto all = reference_logits(*snapshot, tokens);
        logits.assign(all.end() - static_cast<std::ptrdiff_t>(kVocabSize), all.end());
      }
      return distribution(logits.data(), params);
    };
    const std::vector<double> first = distribution_after({});
    std::vector<std::size_t> first_counts(kVocabSize);
    std::map<TokenId, std::vector<std::size_t>> second_counts;
    for (const types::Completion& completion : completions) {
      ++first_counts[static_cast<std::size_t>(completion.tokens[0])];
      auto& counts = second_counts[completion.tokens[0]];
      counts.resize(kVocabSize);
      ++counts[static_cast<std::size_t>(completion.tokens[1])];
      REQUIRE(completion.kept.size() == (params.max_kept > 0 ? 2 : 0));
      if (params.max_kept == 0) continue;
      for (std::size_t token = 0; token < kVocabSize; ++token)
        REQUIRE(std::ranges::binary_search(completion.kept[0], static_cast<TokenId>(token)) == (first[token] > 0));
    }
    CHECK(chi_squared_z(first_counts, first) < 4);
    const auto likeliest = static_cast<TokenId>(std::ranges::max_element(first_counts) - first_counts.begin());
    const std::vector<double> second = distribution_after({likeliest});
    CHECK(chi_squared_z(second_counts[likeliest], second) < 4);
    // The test can distinguish distributions: the same counts are absurd under the other position's distribution.
    CHECK(chi_squared_z(first_counts, distribution_after({likeliest})) > 10);

    int num_wrong = 0;
    for (const types::Completion& completion : completions) {
      const double want = std::log(first[static_cast<std::size_t>(completion.tokens[0])]);
      num_wrong += !qrl::test::close(completion.sampler_logprobs[0], want, 2e-5, 0);
      if (completion.tokens[0] != likeliest) continue;
      const double want_second = std::log(second[static_cast<std::size_t>(completion.tokens[1])]);
      num_wrong += !qrl::test::close(completion.sampler_logprobs[1], want_second, 2e-5, 0);
    }
    CHECK(num_wrong == 0);
  }
}
