// Tests several scores: both aggregations against numpy, responses without a verdict, what dynamic sampling compares.
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "rollout/rollout.h"
#include "support/catch.h"

using namespace qrl;
using rollout::Rollout;

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

Rollout with_scores(const nlohmann::json& scores, std::span<const double> weights) {
  Rollout r;
  r.verdict.dropped = scores.is_null();
  r.verdict.scores.assign(weights.size(), kNone);
  for (std::size_t k = 0; k < scores.size(); ++k) {
    if (!scores[k].is_null()) r.verdict.scores[k] = scores[k];
  }
  r.score = r.reward = rollout::weighted_sum(r.verdict.scores, weights);
  return r;
}

Rollout judged(double score) {
  Rollout r;
  r.score = r.reward = score;
  return r;
}
Rollout not_judged() {
  Rollout r;
  r.verdict.dropped = true;
  return r;
}

std::vector<double> advantages(std::vector<Rollout>& rollouts, std::int32_t n, const char* estimator = "grpo") {
  const auto all = rollout::advantage_estimators();
  const auto world = dist::make_solo();
  rollout::set_advantages(rollouts, n, {all.find(estimator), true, false}, *world);
  std::vector<double> values;
  for (const Rollout& r : rollouts) values.push_back(r.advantage);
  return values;
}

/// A verifier that only has score names.
class Named final : public tasks::Verifier {
 public:
  explicit Named(std::vector<std::string> names) : names_(std::move(names)) {}
  void check_ground_truth(const tasks::Question&, const std::string&) const override {}
  std::shared_ptr<const types::Gold> prepare(const tasks::Question&) const override { return nullptr; }
  std::vector<tasks::Verdict> judge(std::span<const tasks::Sample>, const tasks::JudgeContext&) const override {
    return {};
  }
  const std::vector<std::string>& score_names() const override { return names_; }
  std::vector<double> score_weights(const tasks::RuleWeights&) const override { return {}; }

 private:
  std::vector<std::string> names_;
};

}  // namespace

TEST_CASE("reward aggregation: both ways to advantages equal numpy's, with nulls and unjudged responses") {
  std::ifstream in(test::shipped_data() / "golden" / "aggregation.json");
  const nlohmann::json cases = nlohmann::json::parse(in);
  REQUIRE(cases.size() == 12);
  const auto world = dist::make_solo();
  for (const nlohmann::json& one : cases) {
    const std::vector<double> weights = one.at("weights");
    std::vector<Rollout> rollouts;
    for (const auto& group : one.at("groups")) {
      for (const auto& scores : group) rollouts.push_back(with_scores(scores, weights));
    }
    const auto n = static_cast<std::int32_t>(one.at("groups").front().size());
    const auto check = [&](const char* name) {
      std::size_t i = 0;
      for (const auto& group : one.at(name)) {
        for (const double want : group) {
          INFO(name << " " << i);
          CHECK(test::close(rollouts[i++].advantage, want, 1e-12, 1e-12));
        }
      }
    };
    (void)advantages(rollouts, n);
    check("sum_then_normalize");
    rollout::set_advantages_by_score(rollouts, n, weights, false, *world);
    check("normalize_then_sum");
    rollout::set_advantages_by_score(rollouts, n, weights, true, *world);
    for (const Rollout& r : rollouts) CHECK(r.advantage >= 0);
  }
}

TEST_CASE("unjudged response: counts in no mean, and its group teaches nothing") {
  std::vector<Rollout> rollouts = {judged(1), not_judged(), judged(0), judged(3), not_judged(), not_judged()};
  for (const char* estimator : {"grpo", "rloo", "batch_std", "reinforce_plus_plus_baseline"}) {
    CAPTURE(estimator);
    const std::vector<double> values = advantages(rollouts, 3, estimator);
    CHECK(values[0] == -values[2]);
    CHECK(values[0] > 0.2);
    for (const std::size_t i : {1, 3, 4, 5}) CHECK(values[i] == 0);
    CHECK((rollouts[0].in_loss && rollouts[2].in_loss));
    for (const std::size_t i : {1, 3, 4, 5}) CHECK_FALSE(rollouts[i].in_loss);
  }
  std::vector<Rollout> alone = {judged(0.5)};
  (void)advantages(alone, 1);
  CHECK(alone[0].in_loss);
}

TEST_CASE("dynamic sampling: compares judged samples by sum, outcome or one score") {
  const Named verifier({"correct", "length", "correct"});
  const auto flat = [&](const char* metric, std::vector<Rollout> group) {
    return rollout::FlatGroups(metric, verifier).is_flat(group);
  };
  CHECK(flat("score", {judged(1), not_judged(), judged(1)}));
  CHECK_FALSE(flat("score", {judged(1), not_judged(), judged(2)}));
  CHECK(flat("score", {judged(1), not_judged(), not_judged()}));
  Rollout one = judged(1), other = judged(2);
  one.verdict.scores = {1, 5, kNone};
  other.verdict.scores = {kNone, 6, 1};
  CHECK(flat("correct", {one, other}));
  CHECK_FALSE(flat("length", {one, other}));
  CHECK(flat("acc", {one, other}));
  CHECK_THROWS_WITH(rollout::FlatGroups("format", verifier),
                    Catch::Contains("algorithm.filter_groups.metric: expected one of score, acc, correct, length"));
}
