// Tests runs whose rewards are not 0 or 1: what the log, the result and the export say of them.
#include <fstream>
#include <regex>

#include "support/catch.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

/// Defines a reward in veRL's form for each kind. The share of digits stands for any graded score.
constexpr const char* kRewards = R"(
def share(text): return sum(c.isdigit() for c in text) / max(len(text), 1)
def own_float(data_source, solution_str, ground_truth, extra_info=None): return 0.9 * share(solution_str)
def zero_one(data_source, solution_str, ground_truth, extra_info=None): return float(share(solution_str) > 0.25)
def format_bonus(data_source, solution_str, ground_truth, extra_info=None): return 0.1 * ("<" in solution_str)
def negative_wrong(data_source, solution_str, ground_truth, extra_info=None): return 1.0 if share(solution_str) > 0.25 else -1.0
def parts(data_source, solution_str, ground_truth, extra_info=None): return {"score": share(solution_str), "short": len(solution_str) < 20}
def with_acc(data_source, solution_str, ground_truth, extra_info=None): return {"score": 0.5 * share(solution_str), "acc": share(solution_str) > 0.25}
)";

struct Evaluation {
  double score = 0, correct = 0;
};

/// Computes a step's means from its own validation rows. A response counts as correct if `acc` says so.
Evaluation recomputed(const fs::path& run, int step) {
  Evaluation sums;
  double rows = 0;
  std::ifstream file(run / ("validation/step_" + std::to_string(step) + ".jsonl"));
  for (std::string line; std::getline(file, line);) {
    const auto row = nlohmann::json::parse(line);
    sums.score += row.at("score").get<double>();
    sums.correct += row.at("score_parts").value("acc", 0.0);
    ++rows;
  }
  return {sums.score / rows, sums.correct / rows};
}

nlohmann::json row_of(const fs::path& run, int step) {
  for (const auto& row : test::stable_rows(run / "metrics.jsonl"))
    if (row.at("step") == step) return row;
  return {};
}

}  // namespace

TEST_CASE("reward report: mean score for a program that only gives scores, otherwise share of right answers") {
  const test::TempDir dir;
  std::ofstream(dir / "judge.py") << kRewards;
  for (const std::string kind : {"own_float", "zero_one", "format_bonus", "negative_wrong", "parts", "with_acc"}) {
    INFO(kind);
    const fs::path run = dir / kind;
    const std::string command = "\"verl:" + (dir / "judge.py").string() + ":" + kind + "\"";
    const test::Outcome outcome = test::run_command(test::tiny_command(
        run,
        "--set sft.steps=0 --set trainer.total_training_steps=2 --set optim.lr=0.02 --set reward.verifier=command "
        "--set 'reward.command=[python3, -m, qrl_reward, " +
            command + "]' " + (kind == "own_float" ? "--set trainer.keep_best=val/countdown/score/mean@2" : "")));
    INFO(outcome.output);
    REQUIRE(outcome.exit_code == 0);
    const Evaluation before = recomputed(run, 0), after = recomputed(run, 2);
    const nlohmann::json first = row_of(run, 0), last = row_of(run, 2);
    CHECK(test::close(first.at("val/countdown/score/mean@2").get<double>(), before.score, 1e-12, 0));
    CHECK(test::close(last.at("val/countdown/score/mean@2").get<double>(), after.score, 1e-12, 0));
    CHECK(first.contains("val/countdown/score/score/mean@2"));
    CHECK(first.contains("val/countdown/score/short/mean@2") == (kind == "parts"));

    const bool has_outcome = kind == "with_acc";
    const std::string name = has_outcome ? "countdown mean@2: " : "countdown score/mean@2: ";
    const auto shown = [&](const Evaluation& of) {
      char text[32];
      std::snprintf(text, sizeof text, "%.3f", has_outcome ? of.correct : of.score);
      return std::string(text);
    };
    CHECK(first.at("val/countdown/outcome_fraction") == (has_outcome ? 1 : 0));
    CHECK(last.at("reward/outcome_fraction") == (has_outcome ? 1 : 0));
    CHECK(test::says(outcome, "eval after step 0  " + name + shown(before)));
    CHECK(test::says(outcome, "held-out " + name + shown(before) + " -> " + shown(after)));
    CHECK(test::says(outcome, has_outcome ? ", greedy)  countdown: " : ", greedy)  countdown mean score: "));
    CHECK(test::says(outcome, "no response is correct") == false);
    const test::Outcome report = test::run_command(QRL_BINARY_DIR "/qrl-train report " + run.string());
    CHECK(report.exit_code == 0);
    CHECK(test::says(report, "val/countdown/mean@2") == has_outcome);
    CHECK(test::says(report, "val/countdown/score/mean@2") == !has_outcome);
    const fs::path best = run / "checkpoints/best";
    if (kind == "own_float") CHECK(fs::exists(best));
    const test::Outcome generated = test::run_command(
        QRL_BINARY_DIR "/qrl-train generate " + (run / "checkpoints/step_2").string() + " --prompt 1 --max-tokens 1");
    CHECK(generated.exit_code == 0);
    CHECK(test::says(generated, "its run scored " + name.substr(0, name.size() - 2) + " " + shown(after)));
  }
}
