// Tests sampling with top-k and top-p against ops/sample.h on the same logits and uniform numbers.
#include "cuda/sample/cut.h"

#include <algorithm>
#include <limits>

#include "device.h"
#include "ops/sample.h"

namespace {

using namespace qrl;
using namespace qrl::cuda;
using namespace qrl::cuda::test;

constexpr float kExcluded = -std::numeric_limits<float>::infinity();

/// Rows of logits of one vocabulary, each with its cuts and uniform number.
struct CutRows {
  std::int64_t vocab_size;
  std::vector<float> logits = {};
  std::vector<ops::SampleParams> params = {};
  std::vector<double> uniforms = {};
  const float* row(std::size_t idx) const { return logits.data() + static_cast<std::int64_t>(idx) * vocab_size; }
  void add(const std::vector<float>& of_row, const ops::SampleParams& how, double uniform) {
    logits.insert(logits.end(), of_row.begin(), of_row.end());
    params.push_back(how);
    uniforms.push_back(uniform);
  }
};

/// Holds what the device makes of rows, in memory that scoring reads again.
struct CutThere {
  explicit CutThere(const CutRows& rows, std::int64_t tile)
      : num_rows(static_cast<std::int64_t>(rows.params.size())),
        num_blocks(ceil_div(rows.vocab_size, target::kSampleBlock)),
        num_segments(ceil_div(rows.vocab_size, target::kSegmentTokens)),
        logits(rows.logits),
        maxima(count_of(num_blocks)),
        sums(count_of(num_blocks)),
        parts(count_of(num_blocks * target::kSampleParts)),
        logprobs(count_of(1)),
        exact_sums(count_of(num_blocks)),
        uniforms(rows.uniforms),
        candidates(count_of(num_segments * kMostKept)),
        tokens(count_of(1)),
        num_kept(count_of(1)),
        kept(count_of(kMostKept)),
        settings(settings_of_rows(rows)),
        cuts(cuts_of_rows(rows)) {
    const target::Stream stream;
    for (std::int64_t begin = 0; begin < rows.vocab_size; begin += tile) {
      const std::int64_t count = std::min(tile, rows.vocab_size - begin);
      target::summarize_logits({logits.data() + begin, rows.vocab_size, begin, count, settings.data(), num_blocks,
                                maxima.data(), sums.data(), parts.data(), nullptr},
                               num_rows, stream);
      target::find_candidates({logits.data() + begin, rows.vocab_size, begin, count, settings.data(), cuts.data(),
                               num_blocks, num_segments, exact_sums.data(), candidates.data()},
                              num_rows, stream);
    }
    target::sample_candidates(
        {maxima.data(), exact_sums.data(), candidates.data(), num_blocks, num_segments, rows.vocab_size,
         settings.data(), cuts.data(), uniforms.data(), tokens.data(), logprobs.data(), num_kept.data(), kept.data()},
        num_rows, stream);
    stream.wait();
  }

  std::vector<ops::SampledToken> read() const {
    const std::vector<std::int32_t> ids = tokens.read(), counts = num_kept.read(), all_kept = kept.read();
    const std::vector<float> of_tokens = logprobs.read();
    std::vector<ops::SampledToken> sampled;
    for (std::size_t row = 0; row < ids.size(); ++row) {
      const std::int32_t count = counts[row] < 0 ? -1 - counts[row] : counts[row];
      const auto first = all_kept.begin() + static_cast<std::int64_t>(row) * kMostKept;
      sampled.push_back({ids[row], of_tokens[row], {first, first + count}, counts[row] < 0});
    }
    return sampled;
  }

  std::int64_t num_rows, num_blocks, num_segments;
  OnDevice<float> logits, maxima, sums, parts, logprobs;
  OnDevice<double> exact_sums, uniforms;
  OnDevice<target::Candidate> candidates;
  OnDevice<std::int32_t> tokens, num_kept, kept;
  OnDevice<target::SampleSettings> settings;
  OnDevice<RowCuts> cuts;

 private:
  std::size_t count_of(std::int64_t of_row) const { return static_cast<std::size_t>(num_rows * of_row); }
  static std::vector<target::SampleSettings> settings_of_rows(const CutRows& rows) {
    std::vector<target::SampleSettings> all;
    for (const ops::SampleParams& params : rows.params) all.push_back(target::settings_of(params.temperature));
    return all;
  }
  static std::vector<RowCuts> cuts_of_rows(const CutRows& rows) {
    std::vector<RowCuts> all;
    for (const ops::SampleParams& params : rows.params) all.push_back(row_cuts(params, rows.vocab_size));
    return all;
  }
  static RowCuts row_cuts(const ops::SampleParams& params, std::int64_t vocab_size) {
    if (!params.cuts()) return {};
    CHECK(device_can_cut(params.top_p, params.top_k, params.max_kept, vocab_size));
    return cuda::row_cuts(params.top_p, params.top_k, params.max_kept, vocab_size);
  }
};

/// Samples on both sides; nothing may differ. Returns the number of rows whose kept tokens were limited.
int check_cuts(const CutRows& rows, std::int64_t tile) {
  const std::vector<ops::SampledToken> got = CutThere(rows, tile).read();
  int num_limited = 0;
  for (std::size_t row = 0; row < got.size(); ++row) {
    const ops::SampleParams& params = rows.params[row];
    const ops::SampledToken want = ops::sample(rows.row(row), rows.vocab_size, params, rows.uniforms[row]);
    INFO("row " << row << " of vocabulary " << rows.vocab_size << ", top_k " << params.top_k << ", top_p "
                << params.top_p << ", max_kept " << params.max_kept << ", kept " << got[row].kept.size());
    const bool same = got[row].token == want.token && got[row].limited == want.limited &&
                      (params.max_kept == 0 || got[row].kept == want.kept);
    CHECK(same);
#if defined(QRL_CUDA_EMULATED)
    CHECK(got[row].logprob == want.logprob);
#endif
    // exp and log of fp64 may round otherwise on a GPU.
    CHECK(std::fabs(got[row].logprob - want.logprob) <= 1e-6F * std::max(1.0F, std::fabs(want.logprob)));
    num_limited += want.limited ? 1 : 0;
  }
  return num_limited;
}

enum class Logits : std::uint8_t { normal, peaked, flat, equal, tied, excluded, zeros };
constexpr Logits kLogits[] = {Logits::normal, Logits::peaked,   Logits::flat, Logits::equal,
                              Logits::tied,   Logits::excluded, Logits::zeros};

std::vector<float> logits_of(Logits shape, std::int64_t vocab_size, base::RandomStream& random) {
  std::vector<float> row(static_cast<std::size_t>(vocab_size));
  for (float& logit : row) {
    const float normal = random.normal();
    if (shape == Logits::normal) logit = 3 * normal;
    if (shape == Logits::peaked) logit = 12 * normal;
    if (shape == Logits::flat) logit = 0.01F * normal - 4;
    if (shape == Logits::equal) logit = -1.25F;
    if (shape == Logits::tied) logit = std::round(2 * normal);  // many of each value, also where a cut ends
    if (shape == Logits::excluded) logit = normal > 1.5F ? normal : kExcluded;
    if (shape == Logits::zeros) logit = normal > 1 ? normal - 1 : normal > 0 ? 0.0F : -0.0F;
  }
  if (shape == Logits::excluded) row[random.below(static_cast<std::uint64_t>(vocab_size))] = 0;
  return row;
}

ops::SampleParams random_cuts(std::int64_t vocab_size, base::RandomStream& random) {
  constexpr float kTopP[] = {1, 1e-7F, 0.3F, 0.9F, 0.95F, 0.99F, 0.9999999F};
  const std::int32_t top_k[] = {-1, 1, 2, 20, 50, 255, 256, static_cast<std::int32_t>(vocab_size)};
  constexpr std::int32_t kMaxKept[] = {256, 256, 100, 3, 1};
  constexpr float kTemperatures[] = {1, 1, 0.6F, 2.5F};
  ops::SampleParams params{kTemperatures[random.below(4)], kTopP[random.below(7)], top_k[random.below(8)],
                           kMaxKept[random.below(5)]};
  if (!params.cuts()) params.top_p = 0.95F;
  if (params.top_k > 0 && params.top_k <= 256 && random.below(4) == 0) params.max_kept = 0;
  return params;
}

}  // namespace

TEST_CASE("device cuts: tokens, log-probs and kept tokens of 10,000 rows are the CPU's") {
  if (!find_device()) return;
  base::RandomStream random(9, base::RandomPurpose::test, 1);
  int num_rows = 0, num_limited = 0;
  const auto check = [&](std::int64_t vocab_size, int count, std::int64_t tile) {
    CutRows rows{vocab_size};
    for (int i = 0; i < count; ++i) {
      const Logits shape = kLogits[random.below(std::size(kLogits))];
      const std::vector<float> logits = logits_of(shape, vocab_size, random);
      const double uniform = i % 50 == 0 ? 0.0 : i % 50 == 1 ? 0x1.fffffffffffffp-1 : random.uniform();
      rows.add(logits, random_cuts(vocab_size, random), uniform);
    }
    num_rows += count;
    num_limited += check_cuts(rows, tile);
  };
  for (const std::int64_t vocab_size : {1, 3, 31, 255, 256, 257, 600, 1000}) check(vocab_size, 1200, 8192);
  for (const std::int64_t vocab_size : {8191, 8193, 20000}) check(vocab_size, 120, 8192);
  for (const std::int64_t vocab_size : {16384, 20000, 24577}) check(vocab_size, 50, 16384);
  check(40000, 16, 16384);
  check(151936, 48, 8192);
  CHECK(num_rows >= 10000);
  CHECK(num_limited * 20 > num_rows);
}

TEST_CASE("device cuts: order of threads and size of tiles change nothing") {
  if (!find_device()) return;
  base::RandomStream random(9, base::RandomPurpose::test, 2);
  CutRows rows{17000};
  for (const Logits shape : kLogits) {
    const std::vector<float> logits = logits_of(shape, rows.vocab_size, random);
    for (const ops::SampleParams& params : {ops::SampleParams{1, 0.95F, -1, 256}, ops::SampleParams{1, 0.9F, 50, 256},
                                            ops::SampleParams{1, 1, 1, 256}, ops::SampleParams{0.5F, 1, 300, 100}})
      rows.add(logits, params, random.uniform());
  }
  in_both_orders([&] {
    for (const std::int64_t tile : {8192, 16384, 24576}) check_cuts(rows, tile);
  });
}

TEST_CASE("device cuts: a row without a possible token is marked, a row without cuts is left as it was") {
  if (!find_device()) return;
  constexpr std::int64_t kVocab = 9000;
  const std::vector<float> usual = normal_values(kVocab, 2, 5);
  CutRows rows{kVocab};
  const ops::SampleParams cut{1, 0.9F, -1, 256};
  for (const float broken : {std::nanf(""), -std::nanf(""), std::numeric_limits<float>::infinity()}) {
    // Within a segment of 8,192 tokens, at its ends, the last token, all of the last segment, and all of the first.
    const std::pair<int, int> places[] = {{8500, 8501}, {0, 1},       {8191, 8192}, {8192, 8193},
                                          {8999, 9000}, {8192, 9000}, {0, 8192}};
    for (const auto& [first, last] : places) {
      std::vector<float> logits = usual;
      std::fill(logits.begin() + first, logits.begin() + last, broken);
      rows.add(logits, cut, 0.5);
      rows.add(logits, {1, 1, 20, 256}, 0.5);
    }
  }
  rows.add(std::vector<float>(kVocab, kExcluded), cut, 0.5);
  const std::size_t num_broken = rows.params.size();
  rows.add(usual, cut, 0.5);
  const std::vector<ops::SampledToken> got = CutThere(rows, 8192).read();
  for (std::size_t row = 0; row < num_broken; ++row) {
    CAPTURE(row);
    CHECK((got[row].token == -1 && got[row].kept.empty()));
  }
  CHECK(got[num_broken].token == ops::sample(usual.data(), kVocab, cut, 0.5).token);

  rows.params.back() = {1, 1, -1, 0};
  const CutThere plain(rows, 8192);
  CHECK(plain.num_kept.read().back() == 0);
  CHECK(plain.tokens.read().back() == 0);
}

TEST_CASE("device cuts: which rows the device samples follows from what it can keep") {
  CHECK(device_can_cut(0.95F, -1, 256, 50000));
  CHECK_FALSE(device_can_cut(0.95F, -1, 0, 50000));  // top-p alone may keep any number
  CHECK_FALSE(device_can_cut(0.95F, -1, 257, 50000));
  CHECK(device_can_cut(0.95F, 256, 0, 50000));
  CHECK(device_can_cut(1, 1000, 256, 50000));  // the likeliest 256 of them
  CHECK_FALSE(device_can_cut(0.95F, 257, 256, 50000));
  CHECK_FALSE(device_can_cut(1, 257, 0, 50000));
  CHECK(device_can_cut(0.95F, -1, 0, 256));
  CHECK(device_can_cut(0.95F, 50000, 256, 50000));
}

TEST_CASE(
    "device cuts: scores of kept tokens equal the sampled log-probs bit for bit, entropies their distribution's") {
  if (!find_device()) return;
  base::RandomStream random(9, base::RandomPurpose::test, 3);
  for (const std::int64_t vocab_size : {5, 700, 17000}) {
    CutRows rows{vocab_size};
    for (const Logits shape : kLogits) {
      const std::vector<float> logits = logits_of(shape, vocab_size, random);
      for (const float temperature : {0.6F, 1.0F, 2.5F})
        rows.add(logits, {temperature, 0.9F, -1, 256}, random.uniform());
    }
    in_both_orders([&] {
      const CutThere there(rows, 8192);
      const std::vector<ops::SampledToken> sampled = there.read();
      std::vector<std::int32_t> counts;
      for (const ops::SampledToken& one : sampled) counts.push_back(static_cast<std::int32_t>(one.kept.size()));
      const OnDevice<std::int32_t> num_kept(counts);
      const OnDevice<float> kept_logits(sampled.size() * kMostKept), logprobs(sampled.size()),
          entropies(sampled.size());
      const target::Stream stream;
      for (std::int64_t begin = 0; begin < vocab_size; begin += 8192) {
        target::gather_kept_logits(
            {there.logits.data() + begin, vocab_size, begin, std::min<std::int64_t>(8192, vocab_size - begin),
             num_kept.data(), there.kept.data(), kept_logits.data()},
            there.num_rows, stream);
      }
      target::score_kept(
          {there.maxima.data(), there.sums.data(), there.num_blocks, there.settings.data(), num_kept.data(),
           there.kept.data(), there.tokens.data(), kept_logits.data(), logprobs.data(), entropies.data()},
          there.num_rows, stream);
      stream.wait();
      const std::vector<float> scored = logprobs.read(), found = entropies.read();
      for (std::size_t row = 0; row < sampled.size(); ++row) {
        CHECK(scored[row] == sampled[row].logprob);
        const double temperature = rows.params[row].temperature;
        double total = 0, weighted = 0;
        const double most = *std::max_element(rows.row(row), rows.row(row) + vocab_size);
        for (const std::int32_t token : sampled[row].kept) {
          const double z = (static_cast<double>(rows.row(row)[token]) - most) / temperature;
          if (std::exp(z) == 0) continue;
          total += std::exp(z);
          weighted += std::exp(z) * z;
        }
        const double want = std::log(total) - weighted / total;
        CHECK(std::fabs(static_cast<double>(found[row]) - want) <= 1e-5 * std::max(1.0, want));
      }
    });
  }
}
