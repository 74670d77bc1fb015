#include "ops/sample.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "ops/reference.h"
#include "ops/training.h"

using namespace qrl;
using ops::SampledToken;
using ops::SampleParams;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Returns the distribution that `params` define, in double precision, by full sorting.
std::vector<double> distribution(const std::vector<float>& logits, const SampleParams& params) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  const std::size_t kept =
      params.top_k > 0 ? std::min<std::size_t>(order.size(), static_cast<std::size_t>(params.top_k)) : order.size();
  std::vector<double> weights;
  for (std::size_t i = 0; i < kept; ++i) {
    weights.push_back(std::exp((static_cast<double>(logits[order[i]]) - logits[order[0]]) / params.temperature));
  }
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double mass = 0, chosen = 0;
  std::vector<double> probabilities(logits.size(), 0.0);
  for (std::size_t i = 0; i < kept && (params.top_p >= 1 || mass < params.top_p * total); ++i) {
    mass += weights[i];
    probabilities[order[i]] = weights[i];
    chosen = mass;
  }
  for (double& p : probabilities) p /= chosen;
  return probabilities;
}

/// Returns χ² of `draws` draws against the expected probabilities, and the degrees of freedom. Tokens expected fewer
/// than 5 times form one cell.
std::pair<double, int> chi_square(const std::vector<float>& logits, const SampleParams& params, int draws) {
  const std::vector<double> want = distribution(logits, params);
  base::RandomStream random(9, base::RandomPurpose::test, 1);
  std::vector<int> seen(logits.size(), 0);
  for (int i = 0; i < draws; ++i) {
    const SampledToken sample =
        ops::sample(logits.data(), static_cast<std::int64_t>(logits.size()), params, random.uniform());
    ++seen[static_cast<std::size_t>(sample.token)];
    const double logprob = std::log(want[static_cast<std::size_t>(sample.token)]);
    // exp is within 2 ulp, fp32 sums of up to 1024 terms use 4 chains or more; the result is rounded to fp32.
    REQUIRE(test::close(sample.logprob, logprob, 3e-5, 0x1p-23));
  }
  double chi2 = 0, rare_want = 0;
  int cells = 0, rare_seen = 0;
  for (std::size_t token = 0; token < want.size(); ++token) {
    const double expected = want[token] * draws;
    if (expected < 5) {
      rare_want += expected;
      rare_seen += seen[token];
      continue;
    }
    chi2 += (seen[token] - expected) * (seen[token] - expected) / expected;
    ++cells;
  }
  if (rare_want > 5) {
    chi2 += (rare_seen - rare_want) * (rare_seen - rare_want) / rare_want;
    ++cells;
  } else {
    REQUIRE(rare_seen <= 25);
  }
  return {chi2, cells - 1};
}

/// Returns the upper 0.9999 quantile of χ² (Wilson and Hilferty).
double chi_square_limit(int freedom) {
  const double n = freedom;
  return n * std::pow(1 - 2 / (9 * n) + 3.719 * std::sqrt(2 / (9 * n)), 3);
}

}  // namespace

TEST_CASE("sampling: draws follow the distribution after temperature, top-k and top-p, with its log-probs") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const std::int64_t vocab = GENERATE(7, 33, 257, 3001);
  const SampleParams params =
      GENERATE(SampleParams{1.0F, 1.0F, -1}, SampleParams{0.6F, 1.0F, -1}, SampleParams{1.7F, 1.0F, 5},
               SampleParams{1.0F, 0.7F, -1}, SampleParams{0.8F, 0.9F, 20}, SampleParams{1.0F, 0.01F, -1});
  CAPTURE(path.name(), vocab, params.temperature, params.top_p, params.top_k);
  std::vector<float> logits = test::normal_values(vocab, 2.0F, static_cast<std::uint64_t>(vocab));
  logits[3] = -kInfinity;  // never drawn
  const auto [chi2, freedom] = chi_square(logits, params, vocab > 1000 ? 8000 : 20000);
  if (freedom > 0) CHECK(chi2 < chi_square_limit(freedom));
}

TEST_CASE("sampling: the uniform number walks the CDF from the first to the last possible token") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  for (const std::int64_t vocab : {8, 1024, 1025, 5000}) {
    std::vector<float> logits(static_cast<std::size_t>(vocab), 0.0F);
    logits.front() = logits.back() = -kInfinity;
    CHECK(ops::sample(logits.data(), vocab, {}, 0.0).token == 1);
    CHECK(ops::sample(logits.data(), vocab, {}, std::nextafter(1.0, 0.0)).token == vocab - 2);
    const std::int64_t possible = vocab - 2, middle = possible / 2;
    const double uniform = (static_cast<double>(middle) + 0.5) / static_cast<double>(possible);
    CHECK(ops::sample(logits.data(), vocab, {}, uniform).token == 1 + middle);
    CHECK(ops::sample(logits.data(), vocab, {1, 0.9999F, -1}, 0.0).token == 1);
  }
  // Whole blocks without weight surround the only possible tokens.
  std::vector<float> logits(9000, -kInfinity);
  logits[4000] = logits[4001] = 2.0F;
  CHECK(ops::sample(logits.data(), 9000, {}, 0.0).token == 4000);
  CHECK(ops::sample(logits.data(), 9000, {}, 0.5).token == 4001);
  CHECK(ops::sample(logits.data(), 9000, {}, std::nextafter(1.0, 0.0)).token == 4001);
}

TEST_CASE("sampling: top-k breaks ties by the lower index, top-p takes the smallest prefix that reaches its mass") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const std::vector<float> tied{0, 2, 2, 2, 1};
  for (const double uniform : {0.0, 0.3, 0.6, 0.999}) {
    const SampledToken sample = ops::sample(tied.data(), 5, {1, 1, 2}, uniform);
    CHECK(sample.token == (uniform < 0.5 ? 1 : 2));
    CHECK(test::close(sample.logprob, std::log(0.5), 1e-6, 0));
  }
  // Four equal tokens: a mass of 0.5 is exactly two of them, any larger mass needs three.
  const std::vector<float> equal(4, 1.5F);
  CHECK(ops::sample(equal.data(), 4, {1, 0.5F, -1}, 0.999).token == 1);
  CHECK(ops::sample(equal.data(), 4, {1, 0.51F, -1}, 0.999).token == 2);
  CHECK(ops::sample(equal.data(), 4, {1, 1e-6F, -1}, 0.999).token == 0);
}

TEST_CASE("sampling: temperature 0 takes the lowest index of the largest logit, with log-prob 0") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  std::vector<float> logits = test::normal_values(999, 1.0F, 3);
  logits[700] = logits[41] = 50.0F;
  const SampledToken sample = ops::sample(logits.data(), 999, {0, 1, -1}, 0.99);
  CHECK(sample.token == 41);
  CHECK(sample.logprob == 0.0F);
}

TEST_CASE("sampling: distant logits neither overflow nor lose the log-prob") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const std::vector<float> logits{-3e38F, 3e38F, 0, -kInfinity};
  const SampledToken sample = ops::sample(logits.data(), 4, {}, 0.5);
  CHECK(sample.token == 1);
  CHECK(sample.logprob == 0.0F);
}

TEST_CASE("sampling: NaN or infinite logits are an error at any position") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const SampleParams params =
      GENERATE(SampleParams{1, 1, -1}, SampleParams{0, 1, -1}, SampleParams{1, 0.5F, -1}, SampleParams{1, 1, 3});
  for (const std::int64_t vocab : {5, 33, 2000}) {
    const std::vector<float> good = test::normal_values(vocab, 1.0F, 4);
    for (const std::int64_t at : {std::int64_t{0}, std::int64_t{3}, vocab - 1}) {
      for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity}) {
        std::vector<float> logits = good;
        logits[static_cast<std::size_t>(at)] = bad;
        CHECK_THROWS_AS(ops::sample(logits.data(), vocab, params, 0.5), base::Error);
      }
    }
    const std::vector<float> none(static_cast<std::size_t>(vocab), -kInfinity);
    CHECK_THROWS_AS(ops::sample(none.data(), vocab, params, 0.5), base::Error);
  }
}

TEST_CASE("sampling: a tiled row draws what the whole row draws, also from a block far below the largest logit") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const float temperature = GENERATE(1.0F, 0.5F, 0.0F);
  constexpr std::int64_t kVocab = 1500;
  std::vector<float> logits = test::normal_values(kVocab, 2.0F, 8);
  for (std::int64_t i = 256; i < 512; ++i) logits[static_cast<std::size_t>(i)] -= 30;  // a block of almost no weight
  std::fill_n(logits.begin() + 768, 256, -kInfinity);                                  // and one of no weight at all
  base::RandomStream random(4, base::RandomPurpose::test, 2);
  std::map<std::int64_t, int> blocks;
  for (int i = 0; i < 300; ++i) {
    const double uniform = random.uniform();
    const SampledToken whole = ops::sample(logits.data(), kVocab, {temperature, 1, -1}, uniform);
    ops::RowSummary row;
    row.begin(temperature);
    for (std::int64_t begin = 0; begin < kVocab; begin += 512) {
      row.take(logits.data() + begin, std::min<std::int64_t>(512, kVocab - begin));
    }
    row.end();
    const ops::RowSummary::Place place = row.place(uniform);
    const SampledToken tiled = row.sample(place, logits.data() + place.begin);
    REQUIRE(tiled.token == whole.token);
    REQUIRE(std::bit_cast<std::uint32_t>(tiled.logprob) == std::bit_cast<std::uint32_t>(whole.logprob));
    if (temperature > 0) REQUIRE(ops::logprob(logits.data(), kVocab, temperature, whole.token) == whole.logprob);
    ++blocks[whole.token / 256];
  }
  CHECK(blocks.count(1) + blocks.count(3) == 0);
  CHECK(blocks.size() == (temperature > 0 ? 4 : 1));
  ops::RowSummary row;
  row.begin(1);
  row.take(logits.data(), 100);
  CHECK_THROWS_AS(row.take(logits.data() + 100, 100), base::Error);  // blocks would begin elsewhere
}

TEST_CASE("sampling: a limited cut names the kept tokens, and log-probs over them have the sampler's bits") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  constexpr std::int64_t kVocab = 1500;
  const std::vector<float> logits = test::normal_values(kVocab, 2.0F, 8);
  base::RandomStream random(4, base::RandomPurpose::test, 3);
  struct Cut {
    SampleParams params;
    bool limited;
  };
  for (const Cut& cut : {Cut{{1.3F, 0.9F, -1, 2000}, false}, Cut{{1.3F, 0.9F, -1, 40}, true},
                         Cut{{1, 1, 30, 30}, false}, Cut{{0.7F, 0.8F, 300, 12}, true}}) {
    const SampleParams& params = cut.params;
    CAPTURE(params.top_p, params.top_k, params.max_kept);
    SampleParams unlimited = params;
    unlimited.max_kept = 0;
    const std::vector<double> want = distribution(logits, unlimited);
    std::vector<std::int32_t> left;
    for (std::int32_t token = 0; token < kVocab; ++token)
      if (want[static_cast<std::size_t>(token)] > 0) left.push_back(token);
    REQUIRE((std::ssize(left) > params.max_kept) == cut.limited);
    if (cut.limited) {  // the likeliest of them
      std::ranges::stable_sort(left, [&](std::int32_t a, std::int32_t b) {
        return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
      });
      left.resize(static_cast<std::size_t>(params.max_kept));
      std::ranges::sort(left);
    }
    for (int i = 0; i < 100; ++i) {
      const double uniform = random.uniform();
      const SampledToken sampled = ops::sample(logits.data(), kVocab, params, uniform);
      REQUIRE(sampled.kept == left);
      REQUIRE(sampled.limited == cut.limited);
      REQUIRE(std::ranges::binary_search(left, sampled.token));
      const float again = ops::logprob(logits.data(), kVocab, params.temperature, sampled.token, sampled.kept);
      REQUIRE(std::bit_cast<std::uint32_t>(again) == std::bit_cast<std::uint32_t>(sampled.logprob));
      const SampledToken before = ops::sample(logits.data(), kVocab, unlimited, uniform);
      REQUIRE(before.kept.empty());
      if (!cut.limited) REQUIRE((before.token == sampled.token && before.logprob == sampled.logprob));
    }
    std::vector<float> kept_logits = logits;
    ops::keep_only(kept_logits.data(), kVocab, left);
    for (std::int32_t token = 0; token < kVocab; ++token) {
      const bool stays = std::ranges::binary_search(left, token);
      const auto at = static_cast<std::size_t>(token);
      REQUIRE(kept_logits[at] == (stays ? logits[at] : -kInfinity));
      if (!stays) REQUIRE(ops::logprob(logits.data(), kVocab, params.temperature, token, left) == -kInfinity);
    }
  }
  std::vector<float> untouched = logits;
  ops::keep_only(untouched.data(), kVocab, {});
  CHECK(untouched == logits);
  CHECK(ops::sample(logits.data(), kVocab, {1, 1, -1, 256}, 0.5).kept.empty());  // nothing is cut
  CHECK(ops::sample(logits.data(), kVocab, {0, 0.9F, -1, 256}, 0.5).kept.empty());
}

TEST_CASE("kept tokens: any policy's ratio over them has mean 1, and its gradient equals differences") {
  constexpr std::int64_t kVocab = 23;
  const SampleParams params{0.8F, 0.9F, -1, 256};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const std::vector<float> sampler = test::normal_values(kVocab, 1.0F, seed);
    std::vector<float> learner = sampler;
    const std::vector<float> gap = test::normal_values(kVocab, 0.4F, 100 + seed);
    for (std::size_t v = 0; v < learner.size(); ++v) learner[v] += gap[v];
    const std::vector<std::int32_t> kept = ops::sample(sampler.data(), kVocab, params, 0.5).kept;
    REQUIRE(kept.size() > 1);
    REQUIRE(kept.size() < kVocab);
    std::vector<float> cut = learner;
    ops::keep_only(cut.data(), kVocab, kept);
    const auto logprob = [&](const std::vector<double>& logits, std::int32_t token) {
      double mass = 0;
      for (const double logit : logits) mass += std::exp(logit / static_cast<double>(params.temperature));
      return logits[static_cast<std::size_t>(token)] / static_cast<double>(params.temperature) - std::log(mass);
    };
    const std::vector<double> wide(cut.begin(), cut.end());
    const std::vector<double> mu = distribution(sampler, params);
    double mean_ratio = 0;
    for (std::int32_t token = 0; token < kVocab; ++token) {
      const double of_sampler = mu[static_cast<std::size_t>(token)];
      if (of_sampler == 0) continue;  // never drawn
      mean_ratio += of_sampler * std::exp(logprob(wide, token) - std::log(of_sampler));
      const float reported = ops::logprob(learner.data(), kVocab, params.temperature, token, kept);
      CHECK(test::close(reported, logprob(wide, token), 1e-6, 0x1p-23));
    }
    CHECK(test::close(mean_ratio, 1.0, 1e-9, 0));
    // The kernel's gradient by the logits, and central differences in fp64.
    const std::int32_t target = kept.front();
    float score = 0, entropy = 0, lse = 0;
    const float one = 1, zero = 0;
    const ops::TokenDistribution row{1, kVocab, 1.0F / params.temperature, &target};
    ops::token_log_probs(row, cut.data(), &score, &entropy, &lse);
    std::vector<float> gradient(kVocab);
    ops::TokenGradients gradients{&entropy, &lse, &one, &zero, {gradient.data(), false}};
    gradients.d_logits_stride = kVocab;
    ops::token_log_probs_backward(row, cut.data(), gradients);
    for (std::size_t v = 0; v < wide.size(); ++v) {
      std::vector<double> high = wide, low = wide;
      constexpr double kStep = 1e-4;
      high[v] += kStep;
      low[v] -= kStep;
      const double difference = (logprob(high, target) - logprob(low, target)) / (2 * kStep);
      CHECK(test::close(gradient[v], std::isfinite(wide[v]) ? difference : 0.0, 1e-6, 0));
    }
  }
}
