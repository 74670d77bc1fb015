// Tests sampling against ops/sample.h on the same logits and uniform numbers.
#include "ops/sample.h"

#include <algorithm>
#include <limits>

#include "gemm_fixtures.h"

namespace {

using namespace qrl;
using namespace qrl::cuda;
using namespace qrl::cuda::test;

struct SampledRows {
  std::vector<std::int32_t> tokens;
  std::vector<float> logprobs;
  std::vector<float> scored, entropies;  // of those tokens; not for greedy ones, nor for a row without any
};

/// Computes the scores that score_tokens gives the sampled tokens.
void score(SampledRows& sampled, const target::SummarizedRows& rows, const float* weighted,
           const target::Stream& stream) {
  std::vector<std::int32_t> targets = sampled.tokens;
  for (std::int32_t& token : targets) token = std::max(token, 0);
  const OnDevice<std::int32_t> targets_there(targets);
  const OnDevice<float> scored(targets.size()), entropies(targets.size());
  target::score_tokens({rows, weighted, targets_there.data(), scored.data(), entropies.data()},
                       static_cast<std::int64_t>(targets.size()), stream);
  stream.wait();
  sampled.scored = scored.read();
  sampled.entropies = entropies.read();
}

/// Samples from rows of logits, each at its temperature, in tiles of `tile` tokens. With `hidden`, recomputes the
/// tokens' logits from these rows and `head`.
SampledRows sample_there(const std::vector<float>& logits, std::int64_t vocab_size, const std::vector<double>& uniforms,
                         const std::vector<float>& temperatures, std::int64_t tile,
                         const target::QuantizedRows& hidden = {}, const target::DeviceMatrix& head = {}) {
  const target::Stream stream;
  const auto num_rows = static_cast<std::int64_t>(uniforms.size());
  const std::int64_t num_blocks = ceil_div(vocab_size, target::kSampleBlock);
  const OnDevice<float> there(logits), maxima(static_cast<std::size_t>(num_rows * num_blocks)),
      sums(static_cast<std::size_t>(num_rows * num_blocks)), weighted(static_cast<std::size_t>(num_rows * num_blocks)),
      parts(static_cast<std::size_t>(num_rows * num_blocks * target::kSampleParts)), logprobs(uniforms.size());
  const OnDevice<double> uniforms_there(uniforms);
  const OnDevice<std::int32_t> tokens(uniforms.size());
  std::vector<target::SampleSettings> of_rows;
  for (const float temperature : temperatures) of_rows.push_back(target::settings_of(temperature));
  const OnDevice<target::SampleSettings> settings(of_rows);
  for (std::int64_t begin = 0; begin < vocab_size; begin += tile) {
    target::summarize_logits({there.data() + begin, vocab_size, begin, std::min(tile, vocab_size - begin),
                              settings.data(), num_blocks, maxima.data(), sums.data(), parts.data(), weighted.data()},
                             num_rows, stream);
  }
  const target::SummarizedRows rows{maxima.data(),
                                    sums.data(),
                                    parts.data(),
                                    num_blocks,
                                    vocab_size,
                                    settings.data(),
                                    hidden.quantized == nullptr ? there.data() : nullptr,
                                    vocab_size,
                                    hidden,
                                    head};
  target::sample_tokens({rows, uniforms_there.data(), tokens.data(), logprobs.data()}, num_rows, stream);
  stream.wait();
  SampledRows sampled{tokens.read(), logprobs.read(), {}, {}};
  if (std::ranges::find(temperatures, 0.0F) == temperatures.end()) score(sampled, rows, weighted.data(), stream);
  return sampled;
}

SampledRows sample_there(const std::vector<float>& logits, std::int64_t vocab_size, const std::vector<double>& uniforms,
                         float temperature, std::int64_t tile) {
  return sample_there(logits, vocab_size, uniforms, std::vector<float>(uniforms.size(), temperature), tile);
}

}  // namespace

TEST_CASE("device sampling: tokens and log-probs equal the CPU's, in tiles, at several temperatures") {
  if (!find_device()) return;
  constexpr std::int64_t kRows = 24;
  base::RandomStream random(5, base::RandomPurpose::test, 3);
  std::vector<double> uniforms = {0.0, 0x1.fffffffffffffp-1};
  while (uniforms.size() < kRows) uniforms.push_back(random.uniform());
  int num_different = 0, num_sampled = 0;
  for (const std::int64_t vocab_size : {3, 256, 259, 2000}) {
    const std::vector<float> logits = normal_values(kRows * vocab_size, 3, static_cast<std::uint64_t>(vocab_size));
    for (const float temperature : {0.0F, 0.6F, 1.0F, 2.5F}) {
      in_both_orders([&] {
        const SampledRows sampled = sample_there(logits, vocab_size, uniforms, temperature, 512);
        for (std::size_t row = 0; row < uniforms.size(); ++row) {
          const float* of_row = logits.data() + static_cast<std::int64_t>(row) * vocab_size;
          const ops::SampleParams params{temperature, 1, -1};
          const ops::SampledToken want = ops::sample(of_row, vocab_size, params, uniforms[row]);
          ++num_sampled;
          // A different exp may move a boundary of the CDF past a uniform number that lies at it.
          if (sampled.tokens[row] != want.token) ++num_different;
          else
            CHECK(std::fabs(sampled.logprobs[row] - want.logprob) <= 2e-6F * std::max(1.0F, std::fabs(want.logprob)));
        }
      });
    }
  }
  INFO(num_different << " of " << num_sampled << " tokens differ");
  CHECK(num_different * 500 <= num_sampled);
}

TEST_CASE("device sampling: each row has its own temperature") {
  if (!find_device()) return;
  constexpr std::int64_t kVocab = 700;
  constexpr std::size_t kRows = 12;
  const std::vector<float> logits = normal_values(static_cast<std::int64_t>(kRows) * kVocab, 3, 11);
  std::vector<double> uniforms;
  std::vector<float> temperatures;
  for (std::size_t row = 0; row < kRows; ++row) {
    uniforms.push_back((static_cast<double>(row) + 0.5) / kRows);
    temperatures.push_back(std::vector<float>{0.0F, 0.6F, 1.0F, 2.5F}[row % 4]);
  }
  in_both_orders([&] {
    const SampledRows mixed = sample_there(logits, kVocab, uniforms, temperatures, 512);
    for (std::size_t row = 0; row < kRows; ++row) {
      const SampledRows alike = sample_there(logits, kVocab, uniforms, temperatures[row], 512);
      CHECK(mixed.tokens[row] == alike.tokens[row]);
      CHECK(mixed.logprobs[row] == alike.logprobs[row]);
    }
  });
}

TEST_CASE("device sampling: excluded tokens are never sampled, broken rows are marked") {
  if (!find_device()) return;
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  constexpr std::int64_t kVocab = 600;
  std::vector<float> logits(4 * kVocab, kNone);
  const auto at = [&](std::int64_t row, std::int64_t token) -> float& {
    return logits[static_cast<std::size_t>(row * kVocab + token)];
  };
  at(0, 300) = 1;            // the only one, in the second block
  at(1, 5) = std::nanf("");  // NaN
  at(1, 6) = 0;
  at(2, 7) = std::numeric_limits<float>::infinity();  // row 3: no possible token
  for (const float temperature : {0.0F, 1.0F}) {
    const SampledRows sampled = sample_there(logits, kVocab, {0.9, 0.5, 0.5, 0.5}, temperature, 256);
    CHECK(sampled.tokens == std::vector<std::int32_t>{300, -1, -1, -1});
    CHECK(sampled.logprobs[0] == 0);
    if (temperature == 0) continue;
    CHECK(sampled.scored[0] == 0);
    CHECK(sampled.entropies[0] == 0);
    for (std::size_t row = 1; row < 4; ++row)
      CHECK((std::isnan(sampled.scored[row]) && std::isnan(sampled.entropies[row])));
  }
}

TEST_CASE("device scores: a token's log-prob equals the sampled one bit for bit, and the entropy its distribution's") {
  if (!find_device()) return;
  std::vector<double> uniforms;
  for (int i = 0; i < 20; ++i) uniforms.push_back((i + 0.5) / 20);
  for (const std::int64_t vocab_size : {3, 256, 700, 2000}) {
    std::vector<float> logits = normal_values(20 * vocab_size, 3, static_cast<std::uint64_t>(vocab_size) + 1);
    logits[1] = -std::numeric_limits<float>::infinity();
    for (const float temperature : {0.6F, 1.0F, 2.5F}) {
      in_both_orders([&] {
        const SampledRows sampled = sample_there(logits, vocab_size, uniforms, temperature, 512);
        CHECK(sampled.scored == sampled.logprobs);
        for (std::size_t row = 0; row < uniforms.size(); ++row) {
          const float* of_row = logits.data() + static_cast<std::int64_t>(row) * vocab_size;
          double total = 0, weighted = 0;
          for (std::int64_t i = 0; i < vocab_size; ++i) {
            const double z = static_cast<double>(of_row[i]) / static_cast<double>(temperature);
            total += std::exp(z);
            if (std::exp(z) > 0) weighted += std::exp(z) * z;
          }
          const double want = std::log(total) - weighted / total;
          CHECK(std::fabs(static_cast<double>(sampled.entropies[row]) - want) <= 1e-5 * std::max(1.0, want));
        }
      });
    }
  }
}

TEST_CASE("device sampling: a vocabulary of more blocks than threads finds the CPU's block") {
  if (!find_device()) return;
  constexpr std::int64_t kVocab = 300 * target::kSampleBlock, kRows = 6;
  const std::vector<float> logits = normal_values(kRows * kVocab, 2, 7);
  const std::vector<double> uniforms = {0.0, 0x1.fffffffffffffp-1, 0.25, 0.5, 0.75, 0.999};
  for (const float temperature : {0.0F, 1.0F}) {
    in_both_orders([&] {
      const SampledRows sampled = sample_there(logits, kVocab, uniforms, temperature, 100 * target::kSampleBlock);
      int num_same = 0;
      for (std::size_t row = 0; row < uniforms.size(); ++row) {
        const float* of_row = logits.data() + static_cast<std::int64_t>(row) * kVocab;
        const ops::SampledToken want = ops::sample(of_row, kVocab, {temperature, 1, -1}, uniforms[row]);
        CHECK(std::abs(sampled.tokens[row] / target::kSampleBlock - want.token / target::kSampleBlock) <= 1);
        num_same += sampled.tokens[row] == want.token;
      }
      CHECK(num_same >= 5);  // a different exp may move a boundary
    });
  }
}

TEST_CASE("device sampling: each likely token has its share of the uniform numbers, anywhere in its block") {
  if (!find_device()) return;
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  constexpr std::int64_t kVocab = 700;
  // Parts without a neighbor before, between and after them; one part with two tokens; the second block has none.
  const std::vector<std::int32_t> likely = {31, 32, 127, 255, 512, 600, 603, 699};
  std::vector<float> row(kVocab, kNone), logits;
  double total = 0;
  for (std::size_t i = 0; i < likely.size(); ++i) {
    row[static_cast<std::size_t>(likely[i])] = static_cast<float>(i % 3);
    total += std::exp(static_cast<double>(i % 3));
  }
  std::vector<double> uniforms;
  std::vector<std::int32_t> want;
  double before = 0;
  for (std::size_t i = 0; i < likely.size(); ++i) {
    const double share = std::exp(static_cast<double>(i % 3)) / total;
    for (const double at : {0.001, 0.5, 0.999}) {
      uniforms.push_back(before + at * share);
      want.push_back(likely[i]);
      logits.insert(logits.end(), row.begin(), row.end());
    }
    before += share;
  }
  in_both_orders([&] { CHECK(sample_there(logits, kVocab, uniforms, 1, 512).tokens == want); });
}

TEST_CASE("recomputed logits: give the same tokens, and for an int8 lm_head the same bits") {
  if (!find_device()) return;
  constexpr std::int64_t kRows = 9, kVocab = 1000, kWidth = 200;
  std::vector<double> uniforms;
  for (std::int64_t row = 0; row < kRows; ++row) uniforms.push_back((static_cast<double>(row) + 0.5) / kRows);
  for (const Format format : {Format::bf16, Format::int8}) {
    INFO(quant::name(format));
    const GemmCase gemm(format, {kRows, kWidth, kVocab}, normal_values(kRows * kWidth, 1, 12));
    const std::vector<float> logits = gemm.plain();
    const double away = format == Format::bf16 ? 1e-5 : 0;
    for (const float temperature : {0.0F, 1.0F, 2.5F}) {
      in_both_orders([&] {
        const std::vector<float> all(kRows, temperature);
        const SampledRows given = sample_there(logits, kVocab, uniforms, all, 512);
        const SampledRows found = sample_there(logits, kVocab, uniforms, all, 512, gemm.quantized.rows, gemm.w.view);
        CHECK(found.tokens == given.tokens);
        CHECK(first_beyond(found.logprobs, given.logprobs, away, 0) == "");
        if (temperature > 0) CHECK(found.scored == found.logprobs);
      });
    }
  }
}
