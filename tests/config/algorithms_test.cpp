// Tests which losses and corrections are allowed together, and their defaults.
#include "support.h"

using namespace qrl;
using namespace qrl::test;
using config::LossAggMode;

TEST_CASE("loss keys: null resolves to the algorithm's value") {
  struct Case {
    std::string name;
    double low, high;
    double dual_clip;
    LossAggMode mode;
    bool by_std;
  };
  for (const Case& one : {Case{"grpo", 0.2, 0.2, 0, LossAggMode::seq_mean_token_mean, true},
                          Case{"dr_grpo", 0.2, 0.2, 0, LossAggMode::seq_mean_token_sum_norm, false},
                          Case{"dapo", 0.2, 0.28, 10, LossAggMode::token_mean, true},
                          Case{"gspo", 3e-4, 4e-4, 0, LossAggMode::seq_mean_token_mean, true}}) {
    CAPTURE(one.name);
    const auto algorithm = read("algorithm: {name: " + one.name + "}").algorithm;
    CHECK(algorithm.clip_ratio_low == one.low);
    CHECK(algorithm.clip_ratio_high == one.high);
    CHECK(algorithm.clip_ratio_c == one.dual_clip);
    CHECK(algorithm.loss_agg_mode == one.mode);
    CHECK(algorithm.norm_adv_by_std == one.by_std);
  }
  const auto tbpo = read("{algorithm: {name: tbpo}, rollout_correction: {method: tbpo}}").algorithm;
  CHECK(tbpo.clip_ratio_low == std::nullopt);
  CHECK(tbpo.loss_agg_mode == LossAggMode::seq_mean_token_mean);
  CHECK(read("algorithm: {name: dapo, clip_ratio_c: 3}").algorithm.clip_ratio_c == 3.0);
  CHECK(read("algorithm: {name: dapo, clip_ratio_c: 0}").algorithm.clip_ratio_c == 0.0);
  CHECK(read("algorithm: {name: gspo, clip_ratio_c: 0}").algorithm.clip_ratio_c == 0.0);
  CHECK(read("algorithm: {name: dr_grpo, norm_adv_by_std: true}").algorithm.norm_adv_by_std == true);
}

TEST_CASE("correction thresholds: null resolves to the method's value") {
  const auto thresholds = [](const std::string& method) {
    const auto correction = read("rollout_correction: {method: " + method + "}").rollout_correction;
    return std::pair{correction.threshold, correction.threshold_low};
  };
  using Bounds = std::pair<std::optional<double>, std::optional<double>>;
  CHECK(thresholds("tis") == Bounds{2, {}});
  CHECK(thresholds("icepop") == Bounds{5, 0.5});
  CHECK(thresholds("mis_prod") == Bounds{3, {}});
  CHECK(thresholds("mis_geo") == Bounds{1.001, 0.999});
  for (const char* method : {"none", "tbpo", "ais"}) CHECK(thresholds(method) == Bounds{});
}

TEST_CASE("losses and corrections: meaningless combinations are refused with the reason") {
  struct Case {
    std::string algorithm, correction, expected;
  };
  const Case cases[] = {
      {"name: tbpo", "method: tis",
       "rollout_correction.method: expected rollout_correction.method tbpo or none with algorithm.name tbpo, got tis"},
      {"name: tbpo", "method: ais", "weights whole sequences"},
      {"name: grpo", "{method: icepop, acr: true}",
       "expected rollout_correction.method tis with rollout_correction.acr, got icepop"},
      {"name: gspo", "{method: tis, acr: true}",
       "expected rollout_correction.acr false with algorithm.name gspo, got true"},
      {"name: grpo", "{method: tis, behaviour_in_ratio: true}", "the gap would be counted twice"},
      {"name: gspo", "{method: none, behaviour_in_ratio: true}",
       "expected rollout_correction.behaviour_in_ratio false with algorithm.name gspo, got true"},
      {"{name: tbpo, clip_ratio_low: 0.1}", "method: none",
       "expected no algorithm.clip_ratio_low with algorithm.name tbpo, got 0.1"},
      {"{name: tbpo, clip_ratio_high: 0.1}", "method: none", "set algorithm.tbpo.seq_clip_ratio_"},
      {"{name: gspo, clip_ratio_c: 3}", "method: none",
       "expected algorithm.clip_ratio_c 0.0 with algorithm.name gspo, got 3"},
      {"{name: gspo, loss_agg_mode: token-mean}", "method: none",
       "seq-mean-token-mean with algorithm.name gspo, got token-mean"},
      {"{name: grpo, tbpo: {neg_seq_clip_ratio_high: 0.1}}", "method: none", "algorithm.name tbpo with"},
      {"{name: tbpo, tbpo: {seq_tis_imp_ratio_cap: 3}}", "method: none", "rollout_correction.method tbpo with"},
      {"{name: grpo, tbpo: {mismatch_action: drop}}", "method: tis", "rollout_correction.method tbpo with"},
      {"name: grpo", "{method: tis, ais: {delta: 0.1}}", "rollout_correction.method ais with"},
      {"name: grpo", "{method: none, threshold: 2}",
       "no rollout_correction.threshold with rollout_correction.method none, got 2"},
      {"name: grpo", "{method: ais, threshold: 2}", "set its cap with rollout_correction.ais.C"},
      {"name: grpo", "{method: tbpo, threshold: 2}", "set its cap with algorithm.tbpo.seq_tis_imp_ratio_cap"},
      {"name: grpo", "{method: tis, threshold_low: 0.5}",
       "no rollout_correction.threshold_low with rollout_correction.method tis, got 0.5"},
      // If sampler and learner agree, the ratio is 1, and no method may change anything.
      {"name: grpo", "{method: icepop, threshold: 0.4}", "expected float ≥ 1, got 0.4"},
      {"name: grpo", "{method: tis, threshold: 0.5}", "expected float ≥ 1, got 0.5"},
      {"name: grpo", "{method: mis_prod, threshold: 0.9}", "expected float ≥ 1, got 0.9"},
      {"name: grpo", "{method: icepop, threshold: 3, threshold_low: 1.5}", "expected float in (0, 1], got 1.5"},
      {"name: grpo", "{method: mis_geo, threshold: 1, threshold_low: 1}",
       "threshold above rollout_correction.threshold_low, got rollout_correction.threshold_low 1.0, "},
      {"{name: grpo, clip_ratio_c: 1}", "method: tis", "expected float > 1, or 0 for off, got 1"},
      {"name: grpo", "{method: ais, ais: {C: 0.5}}", "expected float ≥ 1, got 0.5"},
      {"name: grpo", "{method: ais, ais: {delta: 0}}", "expected float > 0, got 0"},
      {"{name: tbpo, tbpo: {seq_tis_imp_ratio_cap: 0.5}}", "method: tbpo", "expected float ≥ 1, got 0.5"},
      {"name: ppo", "method: tis", "grpo | dr_grpo | dapo | gspo | tbpo"},
  };
  const auto in_braces = [](const std::string& text) { return text[0] == '{' ? text : "{" + text + "}"; };
  for (const Case& one : cases) {
    const auto lines =
        faults("algorithm: " + in_braces(one.algorithm) + "\nrollout_correction: " + in_braces(one.correction) + "\n");
    INFO(one.expected);
    REQUIRE(lines.size() == 1);
    INFO(lines.front());
    CHECK(holds(lines.front(), one.expected));
  }
  // The fault is reported at the later of the two words.
  CHECK(holds(fault("algorithm: {name: tbpo}\nrollout_correction: {method: tis}"),
              "r.yaml:2: rollout_correction.method"));
  CHECK(holds(fault("algorithm: {name: tbpo}"), "r.yaml:1: algorithm.name"));
}
