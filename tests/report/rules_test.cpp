// Tests the rules on synthetic runs: each bad run breaks its rule, a healthy run none.
#include "report/rules.h"

#include <cmath>
#include <cstring>
#include <set>

#include "support/catch.h"
#include "support/files.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Returns a run that learns, with the figures of the quickstart.
report::Rows healthy(int num_steps) {
  report::Rows rows;
  const auto score = [&](int step) { return 0.3 + 0.3 * step / num_steps; };
  for (int step = 0; step <= num_steps; ++step) {
    report::Row row{step, {}};
    if (step % 20 == 0) row.metrics["val/countdown/mean@8"] = score(step) - 0.02;
    if (step % 20 == 0) row.metrics["val/countdown_cd3/mean@8"] = 0;
    if (step > 0) {
      const double wave = 0.5 + 0.5 * std::sin(step * 1.7);
      row.metrics.insert({{"critic/rewards/mean", score(step) + 0.05 * wave},
                          {"data/flat_group_fraction", 0.3 + 0.2 * wave},
                          {"reward/no_answer_fraction", 0.2},
                          {"reward/verifier_error_fraction", 0},
                          {"response_length/clip_ratio", 0.1 + 0.2 * wave},
                          {"actor/entropy", 0.24 - 0.05 * step / num_steps},
                          {"actor/grad_norm", 0.08 + 0.15 * wave},
                          {"mismatch/k3_kl", 2e-4 + 2e-3 * wave},
                          {"mismatch/dropped_fraction", 0.01}});
    }
    rows.rows.push_back(row);
  }
  return rows;
}

std::set<std::string> broken(const report::Rows& rows) {
  std::set<std::string> names;
  for (const report::Verdict& verdict : report::judge(rows)) {
    if (verdict.bad) names.insert(std::string(verdict.rule->name));
  }
  return names;
}

/// Returns the healthy run with a metric changed in the steps from `first`.
template <class Change>
report::Rows ill(const char* metric, int first, const Change& change, int num_steps = 60) {
  report::Rows rows = healthy(num_steps);
  for (report::Row& row : rows.rows) {
    if (row.step >= first && row.metrics.count(metric) > 0) row.metrics[metric] = change(row.metrics[metric]);
  }
  return rows;
}

auto always(double value) {
  return [value](double) { return value; };
}

using Names = std::set<std::string>;

}  // namespace

TEST_CASE("report rules: a healthy run of any length causes no verdict") {
  for (const int num_steps : {0, 1, 3, 12, 60, 600}) {
    CAPTURE(num_steps);
    CHECK(broken(healthy(num_steps)).empty());
  }
}

TEST_CASE("report rules: each simulated failure causes its rule's verdict") {
  CHECK(broken(ill("data/flat_group_fraction", 1, always(1))) == Names{"most groups are flat"});
  CHECK(broken(ill("response_length/clip_ratio", 1, always(0.8))) == Names{"many responses are cut"});
  CHECK(broken(ill("reward/no_answer_fraction", 30, always(0.95))) == Names{"most responses have no answer"});
  CHECK(broken(ill("reward/verifier_error_fraction", 1, always(0.02))) == Names{"the verifier makes errors"});
  CHECK(broken(ill("actor/entropy", 20, [](double x) { return x / 10; })) == Names{"entropy has collapsed"});
  CHECK(broken(ill("actor/grad_norm", 60, always(40))) == Names{"the gradient has spikes"});
  CHECK(broken(ill("actor/grad_norm", 60, always(kNan))) == Names{"updates were skipped"});
  CHECK(broken(ill("critic/rewards/mean", 30, always(0.01))) == Names{"the reward has fallen"});
  CHECK(broken(ill("critic/rewards/mean", 2, always(0))) == Names{"the reward has fallen"});  // broken by one update
  CHECK(broken(ill("mismatch/k3_kl", 1, always(0.05))) == Names{"sampler and learner are far apart"});
  CHECK(broken(ill("mismatch/k3_kl", 10, always(0.02))) == Names{"the gap grows"});
  CHECK(broken(ill("mismatch/dropped_fraction", 1, always(0.6))) == Names{"the correction drops most tokens"});
  CHECK(broken(ill("val/countdown/mean@8", 1, always(0.29))) == Names{"training rises, held-out does not"});
}

/// Returns the verdicts for a run's own rows.
Names broken_in(const char* file) {
  return broken(report::parse_rows(test::read_file(fs::path(QRL_SOURCE_DIR "/tests/data/runs") / file)));
}

TEST_CASE("report rules: a real quickstart's rows cause no verdict") { CHECK(broken_in("healthy.jsonl").empty()); }

TEST_CASE("rules: a held-out score that rises and falls again counts as no rise") {
  // 32 prompts: the reward rises from 0.28 to 0.94, the held-out score from 0.27 to 0.43 and falls to 0.35.
  CHECK(broken_in("repeated.jsonl") == Names{"most groups are flat", "training rises, held-out does not"});
}

TEST_CASE("rules: 20 flat steps report that updates do not reach the sampler") {
  const auto run = [](int num_steps, double changed, double rise) {
    report::Rows rows = healthy(num_steps);
    for (report::Row& row : rows.rows) {
      if (row.step == 0) continue;
      row.metrics["critic/rewards/mean"] = 0.3 + 0.02 * std::sin(row.step * 1.7) + rise * row.step / num_steps;
      row.metrics["quant/changed_fraction"] = changed;
    }
    return broken(rows);
  };
  CHECK(run(20, 5e-4, 0) == Names{"updates do not reach the sampler"});
  CHECK(run(20, 2e-3, 0).empty());
  CHECK(run(19, 5e-4, 0).empty());
  CHECK(run(20, 5e-4, 0.1).empty());  // the reward rises all the same
}

TEST_CASE("report rules: tokens masked before any update are reported") {
  report::Rows rows = healthy(12);
  for (report::Row& row : rows.rows) row.metrics["mismatch/masked_at_start_fraction"] = 0.03;
  CHECK(broken(rows) == Names{"tokens are masked before any update"});
}

TEST_CASE("rules: held-out responses of a graded reward are judged by their mean score") {
  report::Rows rows = healthy(60);
  for (report::Row& row : rows.rows) {
    for (const char* name : {"val/countdown/mean@8", "val/countdown_cd3/mean@8"}) {
      const auto share = row.metrics.find(name);
      if (share == row.metrics.end()) continue;
      const std::string set(name, std::strchr(name, '@') - 4);
      row.metrics[set + "score/mean@8"] = share->second;
      row.metrics[set + "outcome_fraction"] = 0;
      share->second = 0;
    }
  }
  CHECK(broken(rows).empty());
  for (report::Row& row : rows.rows) {
    if (row.metrics.count("val/countdown/score/mean@8") > 0) row.metrics["val/countdown/score/mean@8"] = 0.28;
  }
  CHECK(broken(rows) == Names{"training rises, held-out does not"});
}

TEST_CASE("rules: the first row of a set decides between shares and scores for all later rows") {
  report::Measures measures;
  CHECK(measures.is_held_out_score("val/a/b/mean@8"));  // no row says otherwise
  CHECK_FALSE(measures.is_held_out_score("val/a/b/score/mean@8"));
  measures.add({{"val/a/b/outcome_fraction", 0.4}, {"val/c/outcome_fraction", kNan}, {"reward/correct_fraction", 0}});
  measures.add({{"val/a/b/outcome_fraction", 1}, {"val/c/outcome_fraction", 1}, {"reward/outcome_fraction", 0}});
  CHECK(measures.held_out_by_score("a/b"));
  CHECK_FALSE(measures.held_out_by_score("c"));
  CHECK(measures.training_by_score());
  const std::set<std::string> counted = {"val/a/b/score/mean@8",
                                         "val/a/b/score/x/mean@8",
                                         "val/a/b/response_length/mean",
                                         "val/c/mean@8",
                                         "val/c/pass@2",
                                         "critic/score/mean",
                                         "val/loss"};
  const std::set<std::string> misleading = {"val/a/b/mean@8",       "val/a/b/maj@8",        "val/a/b/pass@2",
                                            "val/c/score/mean@8",   "val/c/score/x/mean@8", "reward/correct_fraction",
                                            "reward/wrong_fraction"};
  for (const std::string& name : counted) {
    INFO(name);
    CHECK(measures.counts(name));
  }
  for (const std::string& name : misleading) {
    INFO(name);
    CHECK_FALSE(measures.counts(name));
  }
  CHECK(measures.is_held_out_score("val/a/b/score/mean@8"));
  CHECK(measures.is_held_out_score("val/c/mean@8"));
  CHECK_FALSE(measures.is_held_out_score("val/c/pass@2"));
}

TEST_CASE("rules: a single low evaluation among rising ones is noise") {
  report::Rows rows = healthy(60);
  rows.rows.back().metrics["val/countdown/mean@8"] = 0.29;
  CHECK(broken(rows).empty());
}

TEST_CASE("rules: a run that skips every update is ill") {
  CHECK(broken_in("skipped.jsonl") == Names{"updates were skipped"});
}

TEST_CASE("rules: a step without anything to learn is neither skipped update nor spike") {
  report::Rows rows = healthy(60);
  for (report::Row& row : rows.rows) {
    if (row.step % 3 != 1) continue;
    row.metrics["data/flat_group_fraction"] = 1;
    row.metrics["actor/grad_norm"] = row.step % 2 == 0 ? kNan : 0;
  }
  CHECK(broken(rows).empty());
}

TEST_CASE("verdict line: number, bound, metric and advice") {
  const auto verdicts = report::judge(ill("reward/verifier_error_fraction", 1, always(0.02)));
  for (const report::Verdict& verdict : verdicts) {
    if (verdict.bad)
      CHECK(report::describe(verdict) ==
            "the verifier makes errors: 0.02 > 0.01 (reward/verifier_error_fraction, mean of all steps); look at the "
            "reasons in rollouts/step_N.jsonl");
  }
  CHECK(verdicts.size() == report::rules().size());
}

TEST_CASE("verdict summary: counts rules that were judged, that are broken, and that need more steps") {
  CHECK(report::summary(report::judge(healthy(0))) == "too few steps for a verdict");
  CHECK(report::summary(report::judge(healthy(4))) == "1 of 14 rules judged, none broken; 13 need more steps");
  CHECK(report::summary(report::judge(healthy(60))) == "12 of 14 rules judged, none broken");
  const auto broken_at_once = ill("reward/verifier_error_fraction", 1, always(0.02), 6);
  CHECK(report::summary(report::judge(broken_at_once)) == "7 of 14 rules judged, 1 broken; 6 need more steps");
}

TEST_CASE("watched run: reports a bad verdict once") {
  report::Watcher watcher;
  int num_lines = 0;
  for (const report::Row& row : ill("reward/verifier_error_fraction", 1, always(0.02)).rows)
    num_lines += static_cast<int>(watcher.observe(row).size());
  CHECK(num_lines == 1);
}

TEST_CASE("rules: names are distinct, and an unknown name is an error") {
  Names names;
  for (const report::Rule& rule : report::rules()) CHECK(names.insert(std::string(rule.name)).second);
  CHECK(report::rule("most groups are flat").bound == 0.7);
  CHECK_THROWS(report::rule("none"));
}

TEST_CASE("docs/reference/metrics.md: lists each rule with its metric, number and bound") {
  const std::string page = test::read_file(QRL_SOURCE_DIR "/docs/reference/metrics.md");
  for (const report::Rule& rule : report::rules()) {
    char bound[32];
    std::snprintf(bound, sizeof bound, "%c %.3g |", rule.above ? '>' : '<', rule.bound);
    const std::size_t at = page.find("\n| " + std::string(rule.name) + " | `");
    INFO(rule.name);
    REQUIRE(at != std::string::npos);
    const std::string line = page.substr(at + 1, page.find('\n', at + 1) - at - 1);
    CHECK(line.find("`" + std::string(rule.metric) + "`, " + std::string(rule.number)) != std::string::npos);
    CHECK(line.ends_with(bound));
  }
}
