// Tests that the same rows as JSON lines, as a folder from the Hub and as parquet give the same first step.
#include <filesystem>

#include "data/parquet.h"
#include "support/catch.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

/// Runs one step on `files`; returns the run folder.
fs::path train_on(const test::TempDir& dir, const std::string& name, const std::string& files) {
  test::write_recipe(dir / (name + ".yaml"),
                     {{"train_generator: {task: countdown, size: 64, max_number: 9, max_target: 30}",
                       "train_files: [\"" + files + "\"]"}});
  const test::Outcome outcome =
      test::run_command(QRL_BINARY_DIR "/qrl-train " + (dir / (name + ".yaml")).string() +
                        " --set trainer.default_local_dir=" + (dir / name).string() +
                        " --set sft.steps=2 --set trainer.total_training_steps=1 --set eval.freq=0");
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  return dir / name;
}

void check_same_run(const fs::path& a, const fs::path& b) {
  for (const char* file :
       {"checkpoints/step_1/model.safetensors", "checkpoints/step_1/optimizer.safetensors", "rollouts/step_1.jsonl"}) {
    INFO(a << " " << b << " " << file);
    CHECK(test::read_file(a / file) == test::read_file(b / file));
  }
  CHECK(test::stable_rows(a / "metrics.jsonl") == test::stable_rows(b / "metrics.jsonl"));
}

}  // namespace

TEST_CASE("data formats: JSON lines, a Hub folder and parquet give the same first step") {
  const test::TempDir dir;
  const fs::path golden = test::shipped_data() / "golden" / "parquet";
  const fs::path lines = train_on(dir, "lines", (golden / "countdown.jsonl").string());
  fs::create_directories(dir / "sums/data");
  fs::copy_file(golden / "countdown.jsonl", dir / "sums/data/train-00000-of-00001.jsonl");
  check_same_run(lines, train_on(dir, "hub", (dir / "sums:train").string()));
  if (!data::can_read_parquet()) return qrl::test::skip("parquet: no Arrow here (scripts/setup --parquet)");
  check_same_run(lines, train_on(dir, "parquet", (golden / "countdown.parquet").string()));
  fs::remove(dir / "sums/data/train-00000-of-00001.jsonl");
  fs::copy_file(golden / "countdown.parquet", dir / "sums/data/train-00000-of-00001.parquet");
  check_same_run(lines, train_on(dir, "hub_parquet", (dir / "sums:train").string()));
}
