// Tests runs of a model with gated DeltaNet layers: equal bits and ranks. kill_test has resumption.
#include "train/support.h"

using namespace qrl;

namespace {

const std::string kDelta = "--set model.init.config=" QRL_SOURCE_DIR "/recipes/models/quickstart-delta/config.json ";
const std::string kBitwise = kDelta + "--set quant.learner.forward=low_bit --set rollout.bitwise=true ";

}  // namespace

TEST_CASE("DeltaNet: a bitwise run has no gap in each format, and with adapters") {
  for (const std::string settings :
       {"--set quant.rollout.weights=int8", "--set quant.rollout.weights=fp8_e4m3",
        "--set quant.rollout.weights=int4 --set quant.rollout.kv_cache=bf16", "--set quant.rollout.weights=bf16",
        "--set quant.rollout.weights=int8 --set lora.rank=4 --set lora.target_modules=all-linear"}) {
    CAPTURE(settings);
    const test::TempDir dir;
    const test::Outcome run = test::run_command(test::tiny_command(dir / "run", kBitwise + settings));
    INFO(run.output);
    REQUIRE(run.exit_code == 0);
    for (const auto& row : test::stable_rows(dir / "run/metrics.jsonl")) {
      if (!row.contains("mismatch/k3_kl")) continue;
      CHECK(row.at("mismatch/k3_kl") == 0.0);
      CHECK(row.at("actor/grad_norm").get<double>() > 0);
    }
  }
}

TEST_CASE("DeltaNet on two ranks: first step's tokens and scores equal one rank's, gradients up to rounding") {
  const std::string launcher = test::mpirun(2);
  if (launcher.empty()) return test::skip("no MPI");
  const test::TempDir dir;
  REQUIRE(test::run_command(test::tiny_command(dir / "one", kBitwise)).exit_code == 0);
  REQUIRE(test::run_command(test::tiny_command(dir / "two", kBitwise, launcher)).exit_code == 0);
  CHECK(test::read_file(dir / "two/rollouts/step_1.jsonl") == test::read_file(dir / "one/rollouts/step_1.jsonl"));
  const auto two = test::stable_rows(dir / "two/metrics.jsonl"), one = test::stable_rows(dir / "one/metrics.jsonl");
  CHECK(two.at(0) == one.at(0));
  CHECK(test::close(two.at(1).at("actor/grad_norm").get<double>(), one.at(1).at("actor/grad_norm").get<double>(), 0,
                    1e-5));
}
