// Tests that checkpoints of 0.2 resume with their recipes as they were, to the bits of the run without a break. Tests
// which keys a resumed run takes from its checkpoint. scripts/golden/resumed_runs.py wrote the checkpoints.
#include <fstream>

#include "support/catch.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

const fs::path kFolder = QRL_SOURCE_DIR "/tests/data/resumed";
/// The kernels of the committed runs.
const std::string kPortable = "QRL_ISA=portable ATEN_CPU_CAPABILITY=default ";

std::string sha256_of(const fs::path& file) {
  const std::string line = test::run_command("sha256sum " + file.string()).output;
  return line.substr(0, line.find(' '));
}

void check_resumed(const std::string& name, const std::string& settings = "") {
  INFO(name);
  const test::TempDir dir;
  const fs::path run = dir / "run";
  fs::copy(kFolder / name, run, fs::copy_options::recursive);
  const test::Outcome outcome = test::run_command(kPortable + test::kProgram + (kFolder / (name + ".yaml")).string() +
                                                  " --set trainer.default_local_dir=" + run.string() + " " + settings);
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  CHECK(test::says(outcome, "continuing after step 1"));
  const auto expected = nlohmann::json::parse(test::read_file(kFolder / name / "expected.json"));
  for (const auto& [file, hash] : expected.at("files").items()) {
    INFO(file);
    CHECK(sha256_of(run / "checkpoints/step_3" / file) == hash);
  }
  const auto rows = test::stable_rows(run / "metrics.jsonl");
  const std::size_t first = rows.size() - expected.at("rows").size();
  for (std::size_t i = first; i < rows.size(); ++i) {
    for (const auto& [metric, value] : expected.at("rows")[i - first].items()) {
      INFO(metric << " of row " << i);
      // LibTorch's fp64 sums depend on the processor in their last bits.
      if (value.is_number_float()) CHECK(test::close(rows[i].at(metric).get<double>(), value.get<double>(), 0, 1e-12));
      else CHECK(rows[i].at(metric) == value);
    }
  }
}

}  // namespace

TEST_CASE("checkpoints of 0.2: resume with their unchanged recipes, to equal bits") {
  for (const char* name : {"int8", "kv_cache_auto", "int4", "adapters", "mixture", "many_prompts"}) check_resumed(name);
}

TEST_CASE("updates per step: a resumed run keeps its checkpoint's unless the recipe sets them") {
  const test::TempDir dir;
  fs::copy(kFolder / "many_prompts", dir / "run", fs::copy_options::recursive);
  const std::string command = test::kProgram + (kFolder / "many_prompts.yaml").string() +
                              " --set trainer.default_local_dir=" + (dir / "run").string() + " --dry-run";
  CHECK(test::says(test::run_command(command), "2 updates per step"));
  const test::Outcome other = test::run_command(command + " --set actor.mini_batch_size=128");
  CHECK(test::says(other, "actor.mini_batch_size 128 (it was made with 64)"));
  const test::Outcome fresh = test::run_command(command + " --set trainer.default_local_dir=" + (dir / "new").string());
  CHECK(test::says(fresh, "1 update per step; actor.mini_batch_size: 64 gives 0.2's 2 updates"));
}

TEST_CASE("forward pass, bitwise mode: a resumed run takes its checkpoint's, and equals an unbroken run") {
  const test::TempDir dir;
  const std::string bitwise = "--set rollout.bitwise=true --set quant.learner.forward=low_bit --set sft.steps=0 ";
  REQUIRE(test::run_command(test::tiny_command(dir / "whole", bitwise)).exit_code == 0);
  REQUIRE(
      test::run_command(test::tiny_command(dir / "run", bitwise + "--set trainer.total_training_steps=2")).exit_code ==
      0);
  const test::Outcome rest = test::run_command(
      test::tiny_command(dir / "run", "--set rollout.bitwise=auto --set quant.learner.forward=auto --set sft.steps=0"));
  INFO(rest.output);
  REQUIRE(rest.exit_code == 0);
  CHECK(test::says(rest, "forward low_bit"));
  CHECK(test::difference(dir / "whole", dir / "run") == "");
  const test::Outcome other =
      test::run_command(test::tiny_command(dir / "run",
                                           "--set quant.learner.forward=auto --set sft.steps=0 --set "
                                           "trainer.total_training_steps=6 --set rollout.bitwise=false"));
  CHECK(other.exit_code == 2);
  CHECK(test::says(other, "rollout.bitwise false (it was made with true)"));
}

TEST_CASE("checkpoints of later versions: refused") {
  const test::TempDir dir;
  test::copy_edited(test::finished_run() / "checkpoints/step_4", dir / "step_4", "state.json", [](std::string& text) {
    const std::size_t at = text.find("\"recipe_form\": 1");
    REQUIRE(at != std::string::npos);
    text.replace(at, 16, "\"recipe_form\": 7");
  });
  const test::Outcome refused = test::run_command(
      test::tiny_command(dir / "run", "--set trainer.total_training_steps=5 --resume " + (dir / "step_4").string()));
  CHECK(refused.exit_code == 2);
  CHECK(test::says(refused, "a recipe of form 1 or earlier, got form 7; a later version of qrl-train wrote it"));
}
