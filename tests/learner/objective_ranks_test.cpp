// Tests every loss and correction through the learner: what must not change its gradients.
#include <cmath>
#include <mutex>

#include "learner/choices.h"
#include "learner/learner.h"
#include "learner/objective/mini_batch.h"
#include "learner/ranks.h"
#include "learner/support.h"

namespace qrl {

using learner::LossOptions;
using test::Named;
using types::MicroBatch;

namespace {

/// Holds a loss, a correction, and the settings with which they act on random log-probs.
struct RanksWay {
  std::string name;
  LossOptions loss;
};

std::vector<RanksWay> ranks_ways() {
  std::vector<RanksWay> all;
  const auto add = [&](const std::string& name, const std::string& loss, const std::string& correction) {
    all.push_back({name, test::policy_options(loss, correction)});
    all.back().loss.max_response_length = 20;
  };
  // Random weights are far from the log-probs of random sequences, so the bands are wide: tokens lie on both sides.
  const std::string grpo = "name: grpo", gspo = "name: gspo, clip_ratio_low: 0.2, clip_ratio_high: 0.2";
  add("grpo none", grpo, "method: none");
  add("grpo tis acr", grpo, "method: tis, threshold: 1.2, acr: true");
  add("grpo behavior", grpo, "method: none, behaviour_in_ratio: true");
  add("dr_grpo icepop", "name: dr_grpo", "method: icepop");
  add("dapo mis_prod", "name: dapo", "method: mis_prod");
  add("dapo ais", "name: dapo", "method: ais");
  add("gspo tis", gspo, "method: tis");
  add("gspo none", gspo, "method: none");
  add("gspo mis_geo", gspo, "method: mis_geo, threshold: 1.05, threshold_low: 0.9");
  add("tbpo tbpo",
      "name: tbpo, tbpo: {seq_clip_ratio_low: 0.2, seq_clip_ratio_high: 0.2, neg_seq_clip_ratio_low: 0.2, "
      "neg_seq_clip_ratio_high: 0.3}",
      "method: tbpo");
  for (const char* name : {"cispo", "sapo"}) add(name, std::string("name: ") + name, "method: tis");
  for (const char* name : {"dppo_tv, dppo_tv: {delta: 0.01}", "dppo_kl, dppo_kl: {delta: 0.01}"})
    add(name, std::string("name: ") + name, "method: none");
  add("entropy", grpo + ", top_entropy_quantile: 0.4", "method: tis");
  add("clip-cov", grpo + ", clip_cov: {ratio: 0.1, low: 0.01, high: 9}", "method: none");
  add("off-policy", grpo + ", off_policy_mask_threshold: 0.01", "method: none");
  add("normalized", grpo, "method: tis, batch_normalize: true, rs: token, rs_threshold: 1.3");
  add("rejected", "name: dapo",
      "method: tis, rs: seq_mean, rs_stat: k3, rs_threshold: 0.05, token_veto_threshold: 0.2");
  for (const char* mode : {"token-sum", "seq-mean-token-sum"})
    add("grpo aggregated otherwise", grpo + ", loss_agg_mode: " + mode, "method: tis");
  return all;
}

std::vector<test::Sequence> ranks_sequences() {
  std::vector<test::Sequence> sequences;
  for (const auto& [prompt, response] :
       std::vector<std::pair<int, int>>{{3, 7}, {1, 12}, {5, 1}, {2, 20}, {4, 0}, {3, 5}, {2, 9}, {2, 6}}) {
    sequences.push_back(test::random_sequence(sequences.size(), prompt, response, 37));
  }
  return sequences;
}

struct Result {
  Named gradients;
  learner::Metrics metrics;
};

/// Runs one update with each rank's micro-batches.
std::vector<Result> update(std::vector<std::vector<MicroBatch>> by_rank, LossOptions loss) {
  for (auto& batches : by_rank) {
    for (MicroBatch& batch : batches) {  // as far from the log-probs as from each other
      for (const float log_prob : batch.old_logprobs) batch.old_entropy.push_back(2 + std::sin(40 * log_prob));
    }
  }
  std::vector<MicroBatch> all;
  for (const auto& batches : by_rank) all.insert(all.end(), batches.begin(), batches.end());
  const types::GlobalCounts counts = test::count(all);
  std::vector<Result> results(by_rank.size());
  test::Ranks(static_cast<int>(by_rank.size())).run([&](dist::Collectives& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    const model::ModelConfig config = test::tiny_config();
    learner::Learner learner(config, test::tiny_weights(config), test::options(), world);
    LossOptions mine = loss;
    const learner::Metrics signals = learner::prepare_mini_batch(learner::pointers_to(by_rank[rank]), mine, world);
    for (const MicroBatch& batch : by_rank[rank]) learner.accumulate(batch, counts, mine, {1.0F});
    results[rank].gradients = test::gradients_of(learner);
    results[rank].metrics = learner.update().metrics;
    results[rank].metrics.insert(signals.begin(), signals.end());
  });
  return results;
}

/// Adds up the ranks' gradients from before the reduction.
Named sum(const std::vector<Result>& results) {
  Named total = results[0].gradients;
  for (std::size_t r = 1; r < results.size(); ++r) {
    for (auto& [name, values] : total) {
      for (std::size_t i = 0; i < values.size(); ++i) values[i] += results[r].gradients.at(name)[i];
    }
  }
  return total;
}

}  // namespace

TEST_CASE("losses: gradients and statistics do not depend on micro-batches, packing or ranks") {
  const std::vector<test::Sequence> s = ranks_sequences();
  const std::vector<std::vector<std::vector<MicroBatch>>> divisions = {
      {{test::pack({s[7], s[0]}), test::pack({s[6], s[1], s[4]}), test::pack({s[5], s[3], s[2]})}},
      {{test::pack({s[0], s[1]}), test::pack({s[2]})}, {test::pack({s[3], s[4], s[5], s[6], s[7]})}},
      {{test::pack({s[0], s[3]})}, {test::pack({s[2], s[4], s[1]})}, {test::pack({s[5]}), test::pack({s[6], s[7]})}},
      {{test::pack(s)}, {}, {}}};
  for (const RanksWay& way : ranks_ways()) {
    const Result whole = update({{test::pack(s)}}, way.loss).front();
    CHECK(whole.metrics.at("actor/grad_norm") > 1e-4);
    for (const auto& division : divisions) {
      CAPTURE(way.name, division.size());
      const std::vector<Result> parts = update(division, way.loss);
      std::string worst;
      CHECK(test::relative_difference(sum(parts), whole.gradients, worst) <= 1e-5);
      for (const Result& part : parts) {
        REQUIRE(part.metrics.size() == whole.metrics.size());
        for (const auto& [name, value] : whole.metrics) {
          CAPTURE(name);
          CHECK(test::close(part.metrics.at(name), value, 1e-7, 1e-5));
        }
      }
    }
  }
}

TEST_CASE("losses and corrections: each adds its own metrics") {
  const std::vector<test::Sequence> s = ranks_sequences();
  const auto metrics_of = [&](const std::string& name) {
    for (const RanksWay& way : ranks_ways()) {
      if (way.name == name) return update({{test::pack(s)}}, way.loss).front().metrics;
    }
    FAIL(name);
    return learner::Metrics();
  };
  const auto has = [&](const learner::Metrics& metrics, const std::string& name, double low, double high) {
    CAPTURE(name);
    REQUIRE(metrics.count(name) == 1);
    CHECK(metrics.at(name) >= low);
    CHECK(metrics.at(name) <= high);
  };
  const learner::Metrics acr = metrics_of("grpo tis acr");
  has(acr, "acr/r_mean", 0.5, 0.9999);
  has(acr, "acr/r_below_1_fraction", 0.01, 0.9);
  has(acr, "acr/rho_max", 1.2, 10);
  has(acr, "mismatch/capped_fraction", acr.at("acr/r_below_1_fraction"), acr.at("acr/r_below_1_fraction"));
  has(acr, "actor/clipped_sequence_fraction", 0.1, 1);
  has(metrics_of("dr_grpo icepop"), "mismatch/dropped_fraction", 0, 0.1);
  const learner::Metrics dapo = metrics_of("dapo mis_prod");
  has(dapo, "actor/pg_clipfrac_dual", 0, 0.9);
  has(dapo, "mismatch/dropped_fraction", 0, 0.9);
  const learner::Metrics ais = metrics_of("dapo ais");
  has(ais, "ais/alpha", 0.1, 1);
  has(ais, "ais/alpha_ess", ais.at("ais/alpha"), 1);
  has(ais, "ais/alpha_mis", 1, 1);
  const learner::Metrics tbpo = metrics_of("tbpo tbpo");
  for (const char* name :
       {"tbpo/ratio_above_fraction", "tbpo/ratio_negative_below_fraction", "tbpo/w_below_fraction",
        "tbpo/ratio_negative_above_fraction", "tbpo/w_above_fraction", "actor/pg_clipfrac_negative_high"})
    has(tbpo, name, 0, 1);
  has(tbpo, "tbpo/w_mean", tbpo.at("tbpo/w_min"), tbpo.at("tbpo/w_max"));
  CHECK(tbpo.at("tbpo/w_min") < tbpo.at("tbpo/w_max"));
  CHECK(metrics_of("grpo none").count("mismatch/capped_fraction") == 0);
  has(acr, "acr/freed_fraction", 0, acr.at("acr/r_below_1_fraction"));
  has(acr, "actor/negative_rare_fraction", 0, 1);
  has(ais, "ais/weight_cv", 1e-3, 10);
  has(metrics_of("cispo"), "cispo/capped_fraction", 0, 0.9);
  has(metrics_of("sapo"), "sapo/gate_mean", 0.1, 1);
  has(metrics_of("sapo"), "sapo/damped_fraction", 1e-3, 1);
  has(metrics_of("entropy"), "actor/low_entropy_masked_fraction", 0.5, 0.6);
  has(metrics_of("clip-cov"), "actor/cov_masked_fraction", 1e-3, 0.11);
  has(metrics_of("off-policy"), "actor/off_policy_masked_fraction", 1e-3, 0.9);
  has(metrics_of("normalized"), "mismatch/weight_scale", 0.5, 2);
  has(metrics_of("normalized"), "mismatch/rs_masked_fraction", 1e-3, 0.999);
  has(metrics_of("rejected"), "mismatch/rs_seq_masked_fraction", 1e-3, 1);
  has(metrics_of("rejected"), "mismatch/veto_seq_fraction", 0, 1);
}

TEST_CASE("losses: unresolved settings are refused") {
  const auto world = dist::make_solo();
  const model::ModelConfig config = test::tiny_config();
  learner::Learner learner(config, test::tiny_weights(config), test::options(), *world);
  const MicroBatch batch = test::pack(ranks_sequences());
  CHECK_THROWS_WITH(learner.accumulate(batch, test::count({batch}), learner::LossOptions(), {1.0F}),
                    Catch::Contains("a loss and a correction"));
}

}  // namespace qrl
