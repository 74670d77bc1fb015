// Tests the report on readable data that makes no sense: tasks without a solution, golds of another task.
#include <fstream>

#include "support/catch.h"
#include "train/support.h"

using namespace qrl;

namespace {

std::string row(const std::string& numbers, int target) {
  return R"({"prompt": "p", "ground_truth": {"numbers": [)" + numbers + R"(], "target": )" + std::to_string(target) +
         "}}\n";
}

}  // namespace

TEST_CASE("check: names countdown rows without a solution, and rows that it does not search") {
  const test::TempDir dir;
  const auto check = [&](const std::string& arguments) {
    const test::Outcome outcome =
        test::run_command("cd " + dir.path().string() + " && " + test::kProgram + "check " + arguments);
    CHECK(outcome.exit_code == 0);  // a run can read the file
    return outcome;
  };
  std::ofstream(dir / "a.jsonl") << row("3, 8, 12", 36) << row("3, 8, 12", 24) << row("3, 7", 22)
                                 << row("2, 3, 4, 5", 14) << row("1, 2, 3, 4, 5, 6, 7", 28);
  CHECK(test::says(check("jsonl a.jsonl"),
                   "5 rows, prompts of 1 to 1 bytes, data sources: \"a\" (5)\n"
                   "2 of 5 countdown rows have no solution with every number used once: lines 2, 3\n"
                   "1 of 5 countdown rows have more than 6 numbers; no solution was searched "
                   "for: line 5\n"));
  CHECK(test::says(check("jsonl a.jsonl --numbers subset"),
                   "1 of 5 countdown rows have no solution with any of the numbers, each used at most once: line 3\n"));
  std::ofstream(dir / "a.csv") << "prompt,ground_truth\np,\"{\"\"numbers\"\":[3,8,12],\"\"target\"\":24}\"\n";
  CHECK(test::says(check("csv a.csv"), "1 of 1 countdown rows have no solution with every number used once: line 2\n"));

  std::ofstream many(dir / "many.jsonl");
  for (int i = 0; i < 20; ++i) many << row("3, 8, 12", 24);
  many.close();
  CHECK(test::says(check("jsonl many.jsonl"), "used once: lines 1, 2, 3, 4, 5, 6, 7, 8, …\n"));
  std::ofstream(dir / "good.jsonl") << row("3, 8, 12", 36) << R"({"prompt": "What is 25 + 60?", "answer": "85"})"
                                    << "\n";
  CHECK_FALSE(test::says(check("jsonl good.jsonl"), "countdown rows"));
  CHECK(test::run_command(test::kProgram + "check jsonl " + (dir / "a.jsonl").string() + " --numbers some").exit_code ==
        2);
}

TEST_CASE("reward.verifier: gold answers of another task name the key and advice") {
  const test::TempDir dir;
  std::ofstream(dir / "add.jsonl") << R"({"prompt": "What is 25 + 60?", "answer": "85"})"
                                   << "\n";
  const test::Outcome outcome =
      test::run_command(test::kProgram + QRL_SOURCE_DIR +
                        "/tests/train/tiny.yaml --dry-run --set data.train_generator.task=null --set "
                        "data.train_files=[" +
                        (dir / "add.jsonl").string() + "] --set trainer.default_local_dir=" + (dir / "run").string());
  CHECK(outcome.exit_code == 2);
  CHECK(test::says(outcome, "add.jsonl:1: expected a countdown ground truth such as"));
  CHECK(test::says(outcome,
                   "reward.verifier is countdown: for data of another task set reward.verifier: math for answers in "
                   "mathematics, sudoku for grids, command for data that your program judges"));
}
