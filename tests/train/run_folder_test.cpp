// Tests what a run folder keeps after a power cut, and files that others add to checkpoints.
#include "train/files/run_folder.h"

#include <sys/stat.h>

#include <fstream>

#include "state/power_cut.h"
#include "support/catch.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

TEST_CASE("power cut: rollouts and held-out answers before the last checkpoint are whole") {
  const test::TempDir dir;
  if (!test::run_traced([] {}).possible) return test::skip("this machine forbids ptrace");
  const test::Disk before(dir.path());
  const auto answers = [](int step) { return std::string(static_cast<std::size_t>(5000 + step), 'x') + "\n"; };
  const test::Trace trace = test::run_traced([&] {
    const train::RunFolder folder(dir / "run");
    for (const int step : {1, 2, 3}) {
      folder.write_rollouts(step, answers(step));
      folder.write_validation(step, answers(step));
      if (step == 2) folder.sync_steps();
      if (step == 2) fs::create_directory(dir / "run/committed");
    }
  });
  REQUIRE(trace.exit_code == 0);
  std::mt19937 random(20261128);
  int num_committed = 0, num_lost = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::size_t cut = random() % (trace.calls.size() + 1);
    const test::TempDir image;
    before.after_power_cut(trace.calls, cut, random).write_to(image.path());
    const auto is_whole = [&](int step) {
      const std::string file = "step_" + std::to_string(step) + ".jsonl";
      const auto is = [&](const fs::path& path) { return fs::exists(path) && test::read_file(path) == answers(step); };
      return is(image / "run/rollouts" / file) && is(image / "run/validation" / file);
    };
    if (fs::exists(image / "run/committed")) {
      ++num_committed;
      CHECK(is_whole(1));
      CHECK(is_whole(2));
    }
    num_lost += is_whole(3) ? 0 : 1;
  }
  CHECK(num_committed > 10);
  CHECK(num_lost > 10);  // a cut does lose what nobody synced
}

TEST_CASE("checkpoint with an added file: named, and the run resumes from it") {
  const test::TempDir dir;
  const fs::path checkpoint = test::copy_of_finished_run(dir / "run") / "checkpoints/step_4";
  fs::create_directory(checkpoint / "x");
  std::ofstream(checkpoint / "x/config.json") << "{}";
  std::ofstream(checkpoint / ".nfs0000000001") << "x";
  REQUIRE(mkfifo((checkpoint / "pipe").c_str(), 0600) == 0);
  fs::create_symlink("/absent", checkpoint / "link");
  const test::Outcome outcome =
      test::run_command(test::tiny_command(dir / "run", "--set trainer.total_training_steps=5"));
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  CHECK(test::says(outcome, checkpoint.string() + "/.nfs0000000001 and 3 more: not part of the checkpoint"));
  CHECK(test::says(outcome, "continuing after step 4"));
  CHECK_FALSE(fs::exists(checkpoint.string() + ".damaged"));
  CHECK(fs::exists(checkpoint / "x/config.json"));
}

TEST_CASE("checkpoint with an added file that a resume would read: refused, and nothing is set aside") {
  for (const std::string name : {"adapter_config.json", "optimizer-2.safetensors", "chat_template.jinja"}) {
    const test::TempDir dir;
    const fs::path checkpoint = test::copy_of_finished_run(dir / "run") / "checkpoints/step_4";
    std::ofstream(checkpoint / name) << "{}";
    const std::string error =
        (checkpoint / name).string() + ": expected only files that the checkpoint's manifest lists";
    for (const char* options : {"--set trainer.total_training_steps=5", "--dry-run"}) {
      const test::Outcome outcome = test::run_command(test::tiny_command(dir / "run", options));
      CHECK(outcome.exit_code == 2);
      CHECK(test::says(outcome, error));
    }
    CHECK(fs::exists(checkpoint / "manifest.json"));
    fs::remove(checkpoint / name);
    CHECK(test::run_command(test::tiny_command(dir / "run")).exit_code == 0);
  }
}
