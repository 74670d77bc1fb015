// Tests runs killed at random moments and bytes: each resumes by itself to the bits of an uninterrupted run.
#include <signal.h>
#include <unistd.h>

#include <random>

#include "support/catch.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

bool long_tests() { return std::getenv("QRL_LONG_TESTS") != nullptr; }

/// Kills the tiny recipe with `settings` `num_kills` times in total, over several runs if necessary. Compares each run
/// with an uninterrupted one.
void kill_and_compare(const std::string& settings, int num_kills, std::mt19937& random) {
  const test::TempDir whole_dir;
  if (!settings.empty()) REQUIRE(test::run_command(test::tiny_command(whole_dir / "run", settings)).exit_code == 0);
  const fs::path whole = settings.empty() ? test::finished_run() : whole_dir / "run";
  for (int killed = 0; killed < num_kills;) {
    const test::TempDir dir;
    while (killed < num_kills) {
      const pid_t pid = test::start_command(test::tiny_command(dir / "run", settings), dir / "log");
      usleep(20'000 + random() % 600'000);
      kill(-pid, SIGKILL);
      const int exit_code = test::wait_for(pid);
      if (exit_code == 0) break;  // it had already finished
      INFO(test::read_file(dir / "log"));
      REQUIRE(exit_code == 128 + SIGKILL);
      ++killed;
    }
    const test::Outcome last = test::run_command(test::tiny_command(dir / "run", settings));
    INFO(settings << last.output << test::read_file(dir / "log") << killed << " kills so far");
    REQUIRE(last.exit_code == 0);
    REQUIRE(test::difference(whole, dir / "run") == "");
  }
}

}  // namespace

TEST_CASE("random kills: a resumed run has the bits of one never stopped") {
  std::mt19937 random(20261121);
  kill_and_compare("", long_tests() ? 750 : 4, random);
  kill_and_compare("--set lora.rank=4 --set quant.learner.forward=low_bit", long_tests() ? 50 : 2, random);
  kill_and_compare(
      "--set quant.learner.forward=low_bit --set rollout.bitwise=true --set model.init.config=" QRL_SOURCE_DIR
      "/recipes/models/quickstart-delta/config.json",
      long_tests() ? 50 : 2, random);
  if (!long_tests()) return;
  // 50 kills for each way of computing; 1,000 with those above.
  for (const char* settings :
       {"--set quant.rollout.weights=bf16 --set model.dtype=bfloat16", "--set quant.rollout.weights=fp8_e4m3",
        "--set quant.rollout.weights=int4 --set quant.learner.forward=fake_quant --set model.dtype=bfloat16",
        "--set quant.learner.forward=low_bit --set model.dtype=bfloat16",
        "--set algorithm.kl_loss_coef=0.1 --set actor.ppo_epochs=2"}) {
    kill_and_compare(settings, 50, random);
  }
}

TEST_CASE("address space limit: one error, whatever allocation fails first") {
  const test::TempDir dir;
  int num_refused = 0;
  for (int mib = 360; mib <= 900; mib += long_tests() ? 5 : 60) {
    const test::Outcome small = test::run_command("ulimit -v " + std::to_string(mib * 1024) + "; exec " +
                                                  test::tiny_command(dir / ("run" + std::to_string(mib))));
    INFO(mib << " MiB: " << small.output);
    const std::size_t first = small.output.find("error: ");
    if (small.exit_code == 0 || small.exit_code == 127) continue;  // the loader's own refusal
    ++num_refused;
    CHECK((small.exit_code == 1 || small.exit_code == 2));
    CHECK(first != std::string::npos);
    CHECK(small.output.find("error: ", first + 1) == std::string::npos);
    CHECK(small.output.find("terminate called") == std::string::npos);
  }
  CHECK(num_refused > 0);
}

TEST_CASE("full disk at a random byte of a save: an error, nothing half written, equal bits afterwards") {
  std::mt19937 random(7);
  const fs::path newest = test::finished_run() / "checkpoints/step_4";
  const std::uintmax_t largest =
      std::max(fs::file_size(newest / "optimizer.safetensors"), fs::file_size(newest / "model.safetensors"));
  const int num_runs = long_tests() ? 250 : 3;
  for (int i = 0; i < num_runs; ++i) {
    const test::TempDir dir;
    const fs::path run = test::copy_of_finished_run(dir / "run");
    fs::remove_all(run / "checkpoints/step_4");
    // The limit is in blocks of 512 bytes; writes beyond it fail like on a full disk (EFBIG instead of ENOSPC).
    const std::uintmax_t blocks = 1 + random() % (largest / 512);
    const test::Outcome full =
        test::run_command("ulimit -f " + std::to_string(blocks) + "; exec " + test::tiny_command(run));
    INFO(blocks << " blocks: " << full.output);
    CHECK(full.exit_code == 1);
    CHECK(full.output.find("error: ") != std::string::npos);
    for (const std::string& name : test::names_in(run / "checkpoints")) {
      CHECK(name.find(".damaged") == std::string::npos);
      CHECK(name != "step_4");
    }
    const test::Outcome after = test::run_command(test::tiny_command(run));
    INFO(after.output);
    REQUIRE(after.exit_code == 0);
    REQUIRE(test::difference(test::finished_run(), run) == "");
  }
}
