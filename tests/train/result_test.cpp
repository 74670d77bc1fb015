// Tests that the model in the last lines of a run exists.
#include <fstream>

#include "support/catch.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

/// Returns the path after "model: " in a run's output, or "".
std::string model_path(const std::string& output) {
  const std::string mark = "\n  model: ";
  const std::size_t at = output.find(mark);
  if (at == std::string::npos) return {};
  const std::size_t begin = at + mark.size();
  return output.substr(begin, output.find('\n', begin) - begin);
}

const std::string kNoColdStart = "--set sft.steps=0 --set trainer.total_training_steps=";

}  // namespace

TEST_CASE("run result: the named model exists") {
  const test::TempDir dir;
  const fs::path run = dir / "run";
  const test::Outcome none = test::run_command(test::tiny_command(run, kNoColdStart + "0"));
  INFO(none.output);
  REQUIRE(none.exit_code == 0);
  CHECK(model_path(none.output).empty());
  CHECK(none.output.find("no checkpoint: the recipe has no steps") != std::string::npos);
  for (const char* steps : {"2", "1"}) {  // one is fewer than were made: the run had ended in its second step
    const test::Outcome outcome = test::run_command(test::tiny_command(run, kNoColdStart + steps));
    INFO(outcome.output);
    REQUIRE(outcome.exit_code == 0);
    CHECK(model_path(outcome.output) == (run / "checkpoints/step_2").string());
  }
  // Without further steps in another folder, the given checkpoint is the result.
  const test::Outcome elsewhere = test::run_command(
      test::tiny_command(dir / "other", kNoColdStart + "2 --resume " + (run / "checkpoints/step_2").string()));
  INFO(elsewhere.output);
  REQUIRE(elsewhere.exit_code == 0);
  CHECK(fs::exists(model_path(elsewhere.output)));
  const test::Outcome cold =
      test::run_command(test::tiny_command(dir / "cold", "--set trainer.total_training_steps=0"));
  INFO(cold.output);
  CHECK(model_path(cold.output) == (dir / "cold/checkpoints/sft_12").string());
}

TEST_CASE("run result: sets without a measurement have no line") {
  const test::TempDir dir;
  std::ofstream(dir / "val.jsonl") << R"({"prompt":"1 2 3 = 6\n","ground_truth":{"numbers":[1,2,3],"target":6}})"
                                   << "\n";
  const test::Outcome outcome = test::run_command(test::tiny_command(
      dir / "run", kNoColdStart + "1 --set eval.freq=0 --set data.val_files=[" + (dir / "val.jsonl").string() + "]"));
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.output.find("also measured") == std::string::npos);
  CHECK(outcome.output.find("held-out") == std::string::npos);
}
