// Runs whose learner and sampler share quantised tensors: the probe, the audit, update-aware quantisation.
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "support/catch.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

TEST_CASE("the gap probe is in every row, and beyond its limit the run warns or stops with exit code 3") {
  const test::TempDir dir;
  const std::string limit = "--set trainer.total_training_steps=1 --set rollout_correction.gap_limit.k3_kl=";
  const test::Outcome stopped = test::run_command(test::tiny_command(dir / "stopped", limit + "1e-9"));
  CHECK(stopped.exit_code == 3);
  CHECK(stopped.output.find("gap probe") != std::string::npos);
  const test::Outcome warned = test::run_command(
      test::tiny_command(dir / "warned", limit + "1e-9 --set rollout_correction.gap_limit.action=warn"));
  CHECK(warned.exit_code == 0);
  CHECK(warned.output.find("gap probe") != std::string::npos);
  const auto row = test::stable_rows(dir / "warned/metrics.jsonl").at(1);
  CHECK(row.at("mismatch/probe_k3_kl").get<double>() > 1e-9);
  CHECK(row.at("mismatch/probe_logp_abs_diff_max") >= row.at("mismatch/probe_logp_abs_diff_mean"));
  const test::Outcome passed = test::run_command(test::tiny_command(dir / "passed", limit + "1"));
  CHECK(passed.exit_code == 0);
  CHECK(passed.output.find("gap probe") == std::string::npos);
}

TEST_CASE("the audit says for each tensor whether the learner reads the sampler's own") {
  const test::TempDir dir;
  const auto audit = [&](const std::string& forward) {
    const test::Outcome outcome = test::run_command(test::tiny_command(
        dir / forward, "--set trainer.total_training_steps=1 --set quant.learner.forward=" + forward));
    REQUIRE(outcome.exit_code == 0);
    CHECK(outcome.output.find("12 × int8") != std::string::npos);
    return test::slurp(dir / forward / "quant_audit.txt");
  };
  const std::string shared = audit("low_bit"), apart = audit("bf16");
  CHECK(std::ranges::count(shared, '\n') == 14 + 1 + 3 * 7 + 1);  // tensors; an empty line; matrices of the model
  CHECK(shared.find("layers.2.down: sampler int8 [96, 256], scales [1, 96] F32; learner low_bit; same storage\n") !=
        std::string::npos);
  CHECK(shared.find("its own") == std::string::npos);
  CHECK(apart.find("same storage") == std::string::npos);
}

TEST_CASE("bitwise runs have no gap at all, whatever the formats, and resume to the same bits") {
  const test::TempDir dir;
  const std::string bitwise = "--set rollout.bitwise=true --set quant.learner.forward=low_bit --set rollout.top_p=0.9 ";
  const auto command = [&](const std::string& name) {
    return test::tiny_command(dir / name, bitwise + "--set quant.uaq_scale=1.5");
  };
  const test::Outcome whole = test::run_command(command("whole"));
  INFO(whole.output);
  REQUIRE(whole.exit_code == 0);
  for (const auto& row : test::stable_rows(dir / "whole/metrics.jsonl")) {
    if (row.at("step") == 0) continue;
    CHECK(row.at("mismatch/k3_kl") == 0);
    CHECK(row.at("mismatch/probe_logp_abs_diff_max") == 0);
    CHECK(row.at("mismatch/rho_max") == 1);
  }
  // Applied once: a resumed run must not scale again.
  const pid_t pid = test::start_command(command("killed"), dir / "log");
  while (!fs::exists(dir / "killed/checkpoints/step_2") && kill(pid, 0) == 0) usleep(2'000);
  kill(-pid, SIGKILL);
  test::wait_for(pid);
  REQUIRE(test::run_command(command("killed")).exit_code == 0);
  CHECK(test::difference(dir / "whole", dir / "killed") == "");
  for (const std::string format : {"fp8_e4m3", "int4", "bf16"}) {
    CAPTURE(format);
    CHECK(test::run_command(test::tiny_command(dir / format, bitwise + "--set quant.rollout.weights=" + format))
              .exit_code == 0);
  }
}
