// Tests runs on the path amx: on the processor's tiles, and on emulated tiles with AVX-512.
#include <signal.h>

#include "support/catch.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

const std::string kBitwiseAdapters =
    "--set lora.rank=4 --set quant.learner.forward=low_bit --set rollout.bitwise=true --set trainer.threads=";

/// Starts the run on one thread and kills it once it has a checkpoint; repeats if it finished first.
void run_until_killed(const test::KernelPath& path, const fs::path& run) {
  for (int exit_code = 0; exit_code != 128 + SIGKILL;) {
    fs::remove_all(run);
    const fs::path log = run.string() + ".log";
    const pid_t pid = test::start_command(test::tiny_command(path, run, kBitwiseAdapters + "1"), log);
    const bool is_saved = test::wait_for_file(run / "checkpoints/step_2", pid);  // later checkpoints do not replace it
    kill(-pid, SIGKILL);
    exit_code = test::wait_for(pid);
    INFO(test::read_file(log));
    REQUIRE(is_saved);
  }
}

}  // namespace

TEST_CASE("bitwise adapters on AMX tiles: no gap, and equal bits on any threads, killed and resumed") {
  const std::vector<test::KernelPath> paths = test::tile_paths();
  if (paths.empty()) return test::skip("this processor has neither tiles nor the AVX-512 that emulates them");
  const test::TempDir dir;
  for (const test::KernelPath& path : paths) {
    CAPTURE(path.name());
    const fs::path whole = path.emulated ? dir / "emulated" : dir / "processors", killed = dir / "killed";
    const test::Outcome outcome = test::run_command(test::tiny_command(path, whole, kBitwiseAdapters + "1"));
    INFO(outcome.output);
    REQUIRE(outcome.exit_code == 0);
    for (const auto& row : test::stable_rows(whole / "metrics.jsonl")) {
      if (row.at("step") == 0) continue;
      CHECK(row.at("mismatch/k3_kl") == 0);
      CHECK(row.at("mismatch/probe_logp_abs_diff_max") == 0);
    }
    run_until_killed(path, killed);
    REQUIRE(test::run_command(test::tiny_command(path, killed, kBitwiseAdapters + "3")).exit_code == 0);
    CHECK(test::difference(whole, killed) == "");
  }
  if (paths.size() == 2) CHECK(test::difference(dir / "processors", dir / "emulated") == "");
}
