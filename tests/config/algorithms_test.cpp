// Tests which losses and corrections are allowed together, and their defaults.
#include "support.h"

using namespace qrl;
using namespace qrl::test;
using learner::LossAggMode;

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
