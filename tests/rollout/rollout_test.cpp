#include "rollout/rollout.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/rng.h"
#include "support/catch.h"

using namespace qrl;
using rollout::PackItem;
using rollout::Rollout;

namespace {

std::vector<Rollout> with_rewards(std::initializer_list<double> rewards) {
  std::vector<Rollout> rollouts(rewards.size());
  std::size_t i = 0;
  for (const double reward : rewards) rollouts[i++].reward = reward;
  return rollouts;
}

std::int64_t advantages(std::vector<Rollout>& rollouts, std::int32_t n, const char* word, bool by_std,
                        bool positive_only = false) {
  const auto all = rollout::advantage_estimators();
  const rollout::AdvantageEstimator* estimator = all.find(word);
  const auto world = dist::make_solo();
  return rollout::set_advantages(rollouts, n, {estimator, by_std, positive_only}, *world);
}

/// Returns the tokens p.id and s for sample s of prompt p, which shows what was requested.
class EchoSource final : public types::TextSource {
 public:
  std::vector<types::Completion> complete(std::span<const types::SampleRequest> requests, const types::SamplingParams&,
                                          types::SampleKey) override {
    std::vector<types::Completion> all;
    for (const auto& request : requests) {
      for (std::int32_t s = 0; s < request.num_samples; ++s) {
        all.push_back({{static_cast<types::TokenId>(request.prompt_id), request.first_sample + s}, {0, 0}, {0, 0}, {}});
      }
    }
    return all;
  }
  std::vector<types::Completion> converse(std::span<const types::SampleRequest> requests,
                                          const types::SamplingParams& params, types::SampleKey key,
                                          types::TurnPartner&) override {
    return complete(requests, params, key);
  }
};

}  // namespace

TEST_CASE("collect: requests n samples of each prompt, prompt-major") {
  types::Prompt a, b;
  a.id = 5;
  b.id = 9;
  const rollout::PromptRequest requests[] = {{&a}, {&b, 6}};
  EchoSource source;
  const auto rollouts = rollout::collect(source, requests, 3, {}, {});
  REQUIRE(rollouts.size() == 6);
  for (std::size_t i = 0; i < 6; ++i) {
    const int sample = static_cast<int>(i % 3) + (i < 3 ? 0 : 6);
    CHECK(rollouts[i].prompt == requests[i / 3].prompt);
    CHECK(rollouts[i].sample_idx == sample);
    CHECK(rollouts[i].completion.tokens == std::vector<types::TokenId>{i < 3 ? 5 : 9, sample});
  }
}

TEST_CASE("overlong shaping: zero up to L_max - L_c, then linear to -1 at L_max") {
  // DAPO, eq. 13, with L_max 20 and L_c 4.
  const double want[] = {0, -0.25, -0.5, -0.75, -1, -1};
  for (int tokens = 16; tokens <= 21; ++tokens) CHECK(rollout::overlong_penalty(tokens, 20, 4) == want[tokens - 16]);
  CHECK(rollout::overlong_penalty(0, 20, 4) == 0);
  CHECK(rollout::overlong_penalty(15, 20, 20) == -0.75);

  auto rollouts = with_rewards({1, 0.5});
  rollouts[0].completion.tokens.resize(18);
  rollout::OverlongBuffer buffer;
  rollout::shape_overlong(rollouts, buffer, 20);
  CHECK(rollouts[0].reward == 1);  // not enabled
  buffer = {true, 4, 0.5};
  rollout::shape_overlong(rollouts, buffer, 20);
  CHECK(rollouts[0].reward == 0.75);
  CHECK(rollouts[1].reward == 0.5);
}

TEST_CASE("dynamic sampling: compares raw scores, before length penalties") {
  auto group = with_rewards({1, 0.5, 0.25});
  for (auto& rollout : group) rollout.score = 1;
  CHECK(rollout::has_equal_scores(group));
  group[2].score = 0;
  CHECK_FALSE(rollout::has_equal_scores(group));
}

TEST_CASE("advantages: mean and sample deviation of the group") {
  // numpy: r=[1,0,0,1]; (r-r.mean())/(r.std(ddof=1)+1e-6) = ±0.8660239...; [2,0,1,5] likewise.
  auto rollouts = with_rewards({1, 0, 0, 1, 2, 0, 1, 5});
  CHECK(advantages(rollouts, 4, "grpo", true) == 0);
  const double want[] = {0.86602390, -0.86602390, -0.86602390, 0.86602390, 0, -0.92581969, -0.46290985, 1.38872954};
  for (std::size_t i = 0; i < 8; ++i) CHECK(test::close(rollouts[i].advantage, want[i], 1e-7, 0));
  CHECK(advantages(rollouts, 4, "grpo", false) == 0);
  CHECK(rollouts[7].advantage == 3.0);
}

TEST_CASE("advantages: exactly zero in flat groups, zero sum in groups, unchanged reward in a group of one") {
  auto flat = with_rewards({0.1, 0.1, 0.1, 0, 0, 1});
  CHECK(advantages(flat, 3, "grpo", true) == 1);
  for (std::size_t i = 0; i < 3; ++i) CHECK(flat[i].advantage == 0.0);
  CHECK(std::fabs(flat[3].advantage + flat[4].advantage + flat[5].advantage) < 1e-12);
  auto one = with_rewards({0.7});
  (void)advantages(one, 1, "grpo", true);
  CHECK(test::close(one[0].advantage, 0.7 / (1 + 1e-6), 1e-12, 0));
}

TEST_CASE("advantages: RLOO's other samples, the deviation of all samples, clipping at zero") {
  // numpy, of r = [1,0,0,1 | 2,0,1,5]: rloo 4/3·(r − mean); batch_std (r − mean)/(r.std(ddof=1) + 1e-6) with all eight.
  auto rollouts = with_rewards({1, 0, 0, 1, 2, 0, 1, 5});
  (void)advantages(rollouts, 4, "rloo", false);
  const double rloo[] = {2.0 / 3, -2.0 / 3, -2.0 / 3, 2.0 / 3, 0, -8.0 / 3, -4.0 / 3, 4};
  for (std::size_t i = 0; i < 8; ++i) CHECK(test::close(rollouts[i].advantage, rloo[i], 1e-12, 0));
  (void)advantages(rollouts, 4, "batch_std", false);
  const double std = 1.6690459207925603;
  const double centred[] = {0.5, -0.5, -0.5, 0.5, 0, -2, -1, 3};
  for (std::size_t i = 0; i < 8; ++i) CHECK(test::close(rollouts[i].advantage, centred[i] / (std + 1e-6), 1e-12, 0));
  // reinforce_plus_plus_baseline: numpy, (r − mean of the group).std(ddof=1) = sqrt(15/7) of the same eight.
  (void)advantages(rollouts, 4, "reinforce_plus_plus_baseline", false);
  for (std::size_t i = 0; i < 8; ++i)
    CHECK(test::close(rollouts[i].advantage, centred[i] / (1.4638501094227998 + 1e-6), 1e-12, 0));
  (void)advantages(rollouts, 4, "grpo", false, true);
  for (std::size_t i = 0; i < 8; ++i) CHECK(rollouts[i].advantage == std::max(centred[i], 0.0));
  auto flat = with_rewards({0.1, 0.1, 0.1});
  for (const char* word : {"grpo", "rloo", "batch_std", "reinforce_plus_plus_baseline"}) {
    CHECK(advantages(flat, 3, word, false) == 1);
    CHECK(flat[0].advantage == 0.0);
  }
}

TEST_CASE("dynamic sampling by acc: compares correctness, whatever the scores") {
  auto group = with_rewards({1, 0.1, 0});
  for (auto& rollout : group) rollout.verdict.outcome = reward::Outcome::wrong;
  group[1].score = 0.5;
  CHECK(rollout::has_equal_outcomes(group));
  CHECK_FALSE(rollout::has_equal_scores(group));
  group[0].verdict.outcome = reward::Outcome::correct;
  CHECK_FALSE(rollout::has_equal_outcomes(group));
}

TEST_CASE("pack: every sequence once, whole, within the budget, with shifted targets and masks") {
  base::RandomStream random(11, base::RandomPurpose::test, 0);
  std::vector<std::vector<types::TokenId>> prompts(40), responses(40);
  std::vector<std::vector<float>> logprobs(40);
  std::vector<PackItem> items;
  for (std::size_t i = 0; i < 40; ++i) {
    prompts[i].resize(static_cast<std::size_t>(random.between(1, 9)));
    responses[i].resize(static_cast<std::size_t>(random.between(0, 12)));
    for (auto& t : prompts[i]) t = static_cast<int>(random.below(1000)) + 1;
    for (auto& t : responses[i]) t = static_cast<int>(random.below(1000)) + 1;
    for (std::size_t k = 0; k < responses[i].size(); ++k) logprobs[i].push_back(-static_cast<float>(random.uniform()));
    items.push_back({prompts[i], responses[i], logprobs[i], static_cast<float>(i)});
  }
  const auto batches = rollout::pack(items, 33);
  std::set<std::int64_t> seen;
  std::int64_t response_tokens = 0, total = 0;
  for (const auto& batch : batches) {
    CHECK(batch.num_tokens() <= 33);
    total += batch.num_tokens();
    for (std::size_t s = 0; s < batch.sequence_idx.size(); ++s) {
      const auto i = static_cast<std::size_t>(batch.sequence_idx[s]);
      CHECK(seen.insert(batch.sequence_idx[s]).second);
      const auto first = static_cast<std::size_t>(batch.sequence_starts[s]);
      const auto end = static_cast<std::size_t>(batch.sequence_starts[s + 1]);
      std::vector<types::TokenId> whole = prompts[i];
      whole.insert(whole.end(), responses[i].begin(), responses[i].end());
      CHECK(std::vector<types::TokenId>(batch.tokens.begin() + static_cast<long>(first),
                                        batch.tokens.begin() + static_cast<long>(end)) == whole);
      for (std::size_t t = first; t < end; ++t) {
        const std::size_t local = t - first;
        const bool counts = local + 1 >= prompts[i].size() && local + 1 < whole.size();
        CHECK(batch.loss_mask[t] == (counts ? 1 : 0));
        CHECK(batch.advantages[t] == static_cast<float>(i));
        if (!counts) continue;
        CHECK(batch.targets[t] == whole[local + 1]);
        CHECK(batch.sampler_logprobs[t] == logprobs[i][local + 1 - prompts[i].size()]);
        ++response_tokens;
      }
    }
  }
  CHECK(seen.size() == 40);
  const auto counts = rollout::count(batches);
  CHECK(counts.response_tokens == response_tokens);
  CHECK(counts.sequences ==
        std::count_if(responses.begin(), responses.end(), [](const auto& r) { return !r.empty(); }));
  CHECK(batches.size() <= static_cast<std::size_t>(total / 33 + 3));  // first fit decreasing leaves little room
}

TEST_CASE("pack: a group's prompt occurs once per micro-batch, as its samples' prefix") {
  const std::vector<types::TokenId> first = {1, 2, 3, 4, 5}, second = {6}, third = {7, 8, 9};
  const std::vector<types::TokenId> responses[] = {{20, 21}, {22}, {23, 24, 25}, {26}, {27}, {28}};
  const std::vector<float> logprobs[] = {{-1, -2}, {-3}, {-4, -5, -6}, {-7}, {-8}, {-9}};
  std::vector<PackItem> items;
  for (std::size_t i = 0; i < 6; ++i)
    items.push_back({i < 3 ? first : i < 5 ? second : third, responses[i], logprobs[i], static_cast<float>(i)});
  // Whole: prefix 4 + (1+3) + (1+2) + (1+1); the one-token prompt shares nothing; a group of one is unchanged.
  const auto batches = rollout::pack(items, 21);
  REQUIRE(batches.size() == 1);
  const types::MicroBatch& batch = batches[0];
  CHECK(batch.sequence_idx == std::vector<std::int64_t>{-1, 2, 0, 1, 3, 4, 5});
  CHECK(batch.continues_prefix == std::vector<std::uint8_t>{0, 1, 1, 1, 0, 0, 0});
  CHECK(batch.tokens ==
        std::vector<types::TokenId>{1, 2, 3, 4, 5, 23, 24, 25, 5, 20, 21, 5, 22, 6, 26, 6, 27, 7, 8, 9, 28});
  CHECK(batch.loss_mask == std::vector<std::uint8_t>{0, 0, 0, 0, 1, 1, 1, 0, 1, 1, 0, 1, 0, 1, 0, 1, 0, 0, 0, 1, 0});
  CHECK(batch.sampler_logprobs[4] == -4.0F);
  CHECK(batch.targets[4] == 23);
  CHECK(batch.advantages[4] == 2.0F);
  CHECK(rollout::count(batches).sequences == 6);
  // With a budget that the first group exceeds, the prefix occurs in both batches.
  const auto spilt = rollout::pack(std::span(items).first(3), 9);
  REQUIRE(spilt.size() == 2);
  CHECK(spilt[0].tokens == std::vector<types::TokenId>{1, 2, 3, 4, 5, 23, 24, 25});
  CHECK(batch.kept.empty());
  CHECK(spilt[1].tokens == std::vector<types::TokenId>{1, 2, 3, 4, 5, 20, 21, 5, 22});
}

TEST_CASE("pack: kept tokens are stored at the entry that predicts the response token") {
  const std::vector<types::TokenId> first = {1, 2, 3, 4, 5}, second = {6, 7};
  types::Completion samples[4];
  samples[0].tokens = {20, 21};
  samples[1].tokens = {22};
  samples[2].tokens = {23, 24, 25};
  samples[3].tokens = {};
  for (types::Completion& sample : samples) {
    sample.sampler_logprobs.assign(sample.tokens.size(), -1.0F);
    for (const types::TokenId token : sample.tokens)
      sample.kept.add(std::vector<types::TokenId>{token - 1, token, token + static_cast<types::TokenId>(token % 3)});
  }
  std::vector<PackItem> items;
  for (std::size_t i = 0; i < 4; ++i) items.push_back(rollout::sampled_item(i < 2 ? first : second, samples[i], 1.0F));
  for (const std::int64_t budget : {10, 100}) {
    std::int64_t num_sets = 0;
    for (const types::MicroBatch& batch : rollout::pack(items, budget)) {
      for (std::size_t t = 0; t < batch.tokens.size(); ++t) {
        const auto kept = t < batch.kept.size() ? batch.kept[t] : std::span<const types::TokenId>();
        CHECK(kept.empty() == (batch.loss_mask[t] == 0));
        if (batch.loss_mask[t] == 0) continue;
        const types::TokenId token = batch.targets[t];
        CHECK(std::ranges::equal(kept, std::vector<types::TokenId>{token - 1, token, token + token % 3}));
        ++num_sets;
      }
    }
    CHECK(num_sets == 6);
  }
  types::KeptTokens short_of_one;
  short_of_one.add(std::vector<types::TokenId>{20});
  items[0].kept = &short_of_one;
  CHECK_THROWS_AS(rollout::pack(items, 100), base::Error);
}

TEST_CASE("pack: a row has its token's route, a shared prompt's rows once, a sequence's last row none") {
  // Routes of 2 layers with 2 experts each, which name their token.
  const auto route_of = [](types::TokenId token) {
    const auto low = static_cast<std::uint8_t>(token), high = static_cast<std::uint8_t>(token + 100);
    return std::vector<std::uint8_t>{low, high, static_cast<std::uint8_t>(low + 1),
                                     static_cast<std::uint8_t>(high + 1)};
  };
  const std::vector<types::TokenId> shared = {11, 12, 13, 14, 15}, single = {6, 7};
  types::Completion samples[3];
  samples[0].tokens = {20, 21, 22};
  samples[1].tokens = {23};
  samples[2].tokens = {24, 25};
  std::vector<PackItem> items;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::vector<types::TokenId>& prompt = i < 2 ? shared : single;
    std::vector<types::TokenId> computed = prompt;
    computed.insert(computed.end(), samples[i].tokens.begin(), samples[i].tokens.end() - 1);
    samples[i].routes.num_layers = samples[i].routes.per_token = 2;
    for (const types::TokenId token : computed) {
      const auto route = route_of(token);
      samples[i].routes.experts.insert(samples[i].routes.experts.end(), route.begin(), route.end());
    }
    items.push_back(rollout::sampled_item(prompt, samples[i], 1.0F));
  }
  for (const std::int64_t budget : {8, 100}) {
    std::int64_t num_last = 0;
    for (const types::MicroBatch& batch : rollout::pack(items, budget)) {
      REQUIRE(batch.sampler_routes.num_tokens() == batch.num_tokens());
      CHECK(batch.replayed() == nullptr);
      for (std::int64_t s = 0; s < batch.num_sequences(); ++s) {
        const auto at = static_cast<std::size_t>(s), end = static_cast<std::size_t>(batch.sequence_starts[at + 1]);
        for (auto t = static_cast<std::size_t>(batch.sequence_starts[at]); t < end; ++t) {
          const bool is_last = t + 1 == end && batch.sequence_idx[at] >= 0;
          const auto want = is_last ? std::vector<std::uint8_t>{0, 1, 0, 1} : route_of(batch.tokens[t]);
          CHECK(std::ranges::equal(batch.sampler_routes.of_token(t), want));
          num_last += is_last ? 1 : 0;
        }
      }
    }
    CHECK(num_last == 3);
  }
  const types::Routes whole = samples[1].routes;
  samples[1].routes.experts.resize(16);  // of a token fewer
  CHECK_THROWS_AS(rollout::pack(items, 100), base::Error);
  samples[1].routes = {};
  CHECK_THROWS_AS(rollout::pack(items, 100), base::Error);
  samples[1].routes = whole;
  CHECK(rollout::pack(items, 100).size() == 1);
}

TEST_CASE("pack: tokens that an environment added are masked, and count in no denominator") {
  const std::vector<types::TokenId> prompt{5, 6};
  types::Completion sample;
  sample.tokens = {1, 2, 3, 4};
  sample.sampler_logprobs = {-1, -2, 0, -3};
  sample.sampled = {1, 1, 0, 1};
  const rollout::PackItem items[] = {rollout::sampled_item(prompt, sample, 1.0F)};
  const std::vector<types::MicroBatch> batches = rollout::pack(items, 100);
  REQUIRE(batches.size() == 1);
  CHECK(batches[0].loss_mask == std::vector<std::uint8_t>{0, 1, 1, 0, 1, 0});
  CHECK(batches[0].sampler_logprobs == std::vector<float>{0, -1, -2, 0, -3, 0});
  CHECK(rollout::count(batches).response_tokens == 3);
}

TEST_CASE("pack: a sequence above the budget is an input error") {
  const std::vector<types::TokenId> prompt(5), response(5);
  const PackItem items[] = {{prompt, response, {}, 0}};
  CHECK_THROWS_AS(rollout::pack(items, 9), base::Error);
  CHECK(rollout::pack(items, 10).size() == 1);
}
