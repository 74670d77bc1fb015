// Tests the gap probe's figures, recomputed from the decoder's samples and the learner's scores.
#include "train/step/gap_probe.h"

#include <limits>
#include <set>

#include "base/error.h"
#include "learner/learner.h"
#include "learner/support.h"
#include "train/policy/sampler.h"
#include "train/prompts/prompts.h"

using namespace qrl;

namespace {

/// Holds some prompts, and a recipe whose sampler differs from its learner by int8's rounding.
struct Parts {
  Parts() {
    recipe.rollout.temperature = 0.8;
    recipe.trainer.seed = 4;
    recipe.data.max_response_length = 30;
    for (std::uint64_t i = 0; i < 12; ++i)
      prompts.prompts.push_back({.id = i, .tokens = test::random_sequence(i, 4 + i, 0, 37).tokens});
  }
  train::Recipe recipe;
  train::PromptSet prompts;
};

}  // namespace

TEST_CASE("gap probe: k1, k3 and mean |difference| equal those of the samples under the learner's scores") {
  const Parts parts;
  const model::ModelConfig config = test::tiny_config();
  const auto world = dist::make_solo();
  learner::Learner learner(config, test::tiny_weights(config), test::options(), *world);
  train::Sampler sampler(config, parts.recipe, *world, 20);
  learner.publish(sampler.snapshot, 0);
  sampler.decoder.load(sampler.snapshot);
  const auto requests = train::probe_requests(parts.prompts, parts.recipe.trainer.seed);
  const types::SamplingParams sampling{.temperature = 0.8F, .max_new_tokens = 30};
  const train::Metrics measured = train::probe_gap(sampler, learner, requests, parts.recipe, sampling);

  // The probe's tokens: at most 16 per sample, with the keys of a separate step.
  types::SamplingParams short_ones = sampling;
  short_ones.max_new_tokens = 16;
  const auto drawn = sampler.decoder.complete(requests, short_ones, {parts.recipe.trainer.seed, 0xfffffffeU});
  double count = 0, k1 = 0, k3 = 0, size = 0, most = 0;
  std::size_t i = 0;
  for (const types::SampleRequest& request : requests) {
    for (std::int32_t n = 0; n < request.num_samples; ++n, ++i) {
      test::Sequence sequence;
      sequence.tokens.assign(request.prompt_tokens.begin(), request.prompt_tokens.end());
      sequence.prompt_length = static_cast<std::int64_t>(sequence.tokens.size());
      sequence.tokens.insert(sequence.tokens.end(), drawn[i].tokens.begin(), drawn[i].tokens.end());
      sequence.sampler = drawn[i].sampler_logprobs;
      sequence.reference = sequence.sampler;
      const types::MicroBatch batch = test::pack({sequence}, false);
      const std::vector<float> learned = learner.score(batch, {0.8F}).logprobs;
      for (std::size_t t = 0; t < learned.size(); ++t) {
        if (batch.loss_mask[t] == 0) continue;
        const double ratio_log = static_cast<double>(learned[t]) - static_cast<double>(batch.sampler_logprobs[t]);
        count += 1;
        k1 += static_cast<double>(batch.sampler_logprobs[t]) - static_cast<double>(learned[t]);
        k3 += std::exp(ratio_log) - 1 - ratio_log;
        size += std::fabs(ratio_log);
        most = std::max(most, std::fabs(ratio_log));
      }
    }
  }
  CHECK(count == 4 * 16);
  CAPTURE(k1 / count, k3 / count, size / count, most);
  // fp32 sums with other rows change a log-prob by 1e-6, compared with differences of 1e-2.
  constexpr double kRounding = 1e-5;
  CHECK(test::close(measured.at("mismatch/probe_k1_kl"), k1 / count, kRounding, 0));
  CHECK(test::close(measured.at("mismatch/probe_k3_kl"), k3 / count, 0, 1e-2));  // twice 1e-6 of 1e-2, plus a margin
  CHECK(test::close(measured.at("mismatch/probe_logp_abs_diff_mean"), size / count, kRounding, 0));
  CHECK(test::close(measured.at("mismatch/probe_logp_abs_diff_max"), most, kRounding, 0));
  // The figures distinguish these estimators from each other, and from their negatives.
  CHECK(std::fabs(k1 / count) > 20 * kRounding);
  CHECK(size / count > std::fabs(k1 / count) + 20 * kRounding);
}

TEST_CASE("gap probe: requests two samples each of prompts chosen by seed") {
  const Parts parts;
  std::set<std::vector<std::uint64_t>> chosen;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    std::vector<std::uint64_t> ids;
    for (const types::SampleRequest& request : train::probe_requests(parts.prompts, seed)) {
      ids.push_back(request.prompt_id);
      CHECK(request.num_samples == 2);
      CHECK(request.prompt_tokens.data() == parts.prompts.prompts[request.prompt_id].tokens.data());
    }
    CHECK(ids.size() == 2);
    chosen.insert(ids);
  }
  CHECK(chosen.size() > 4);
}

TEST_CASE("gap limit: a gap above the limit, or NaN, ends the run or warns as configured") {
  train::CorrectionRecipe recipe;
  const auto check = [&](double k3) { train::check_gap({{"mismatch/probe_k3_kl", k3}}, recipe); };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double k3 : {0.2, nan}) CHECK_NOTHROW(check(k3));
  recipe.gap_limit = 0.1;
  CHECK_NOTHROW(check(0.1));
  for (const double k3 : {0.2, nan}) {
    try {
      check(k3);
      FAIL_CHECK("passed " << k3);
    } catch (const base::Error& error) {
      CHECK(error.kind() == base::ErrorKind::guard);
      CHECK(std::string(error.what()).find("gap_limit.k3_kl = 0.1") != std::string::npos);
    }
  }
  recipe.gap_action = train::GapAction::warn;
  for (const double k3 : {0.2, nan}) CHECK_NOTHROW(check(k3));
}
