// Tests what a run, a dry run, eval and generate make of keys that are `auto`, and the gap that a run measures first.
#include <filesystem>

#include "support/catch.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

const std::string kResumed = QRL_SOURCE_DIR "/tests/data/resumed/";
/// The folder's checkpoints are of 0.2, whose recipes leave quant.rollout.kv_cache auto.
const std::string kOldCheckpoint = kResumed + "kv_cache_auto/checkpoints/step_1";

std::string from_model(const fs::path& folder) {
  return "--set model.init.config=null --set sft.steps=0 --set model.path=" + folder.string() + " ";
}

}  // namespace

TEST_CASE("automatic keys: a dry run says what was chosen and why, and lists nothing that the recipe sets") {
  const test::TempDir dir;
  const auto plan = [&](const std::string& settings) {
    return test::run_command(test::tiny_command(dir / "run", settings + " --dry-run"));
  };
  const test::Outcome chosen = plan("--set quant.rollout.weights=int8 --set rollout.bitwise=auto");
  INFO(chosen.output);
  CHECK(test::says(chosen, "bf16 KV cache (auto)"));
  CHECK(test::says(chosen, "chosen      rollout.bitwise false: it needs quant.learner.forward low_bit\n"));
  CHECK(test::says(chosen, "            quant.rollout.kv_cache bf16: int8 pages would widen the gap to the learner\n"));
  const test::Outcome open =
      plan("--set quant.rollout.weights=int8 --set quant.learner.forward=auto --set rollout.bitwise=auto");
  CHECK(test::says(open, "chosen      quant.learner.forward "));
  CHECK(test::says(open, "(docs/science/real-weights.md)\n            rollout.bitwise "));
  const test::Outcome equal =
      plan("--set quant.rollout.weights=int8 --set quant.learner.forward=low_bit --set rollout.bitwise=true");
  INFO(equal.output);
  CHECK(test::says(equal, "chosen      quant.rollout.kv_cache int8: the learner reads the same pages\n"));
  CHECK(
      test::says(equal, "correction  tis (default), idle: with equal bits its weights are 1, threshold 2.0 (default)"));
  CHECK(equal.output.find("quant.learner.forward low_bit: ") == std::string::npos);
  const test::Outcome set = plan(
      "--set quant.rollout.weights=int8 --set quant.learner.forward=bf16 --set "
      "rollout.bitwise=false --set quant.rollout.kv_cache=int8 --set quant.rollout.rotation=none");
  CHECK(set.output.find("chosen  ") == std::string::npos);
}

TEST_CASE(
    "automatic keys: a checkpoint's recipe has the chosen values, and a recipe that says auto resumes with them") {
  const test::TempDir dir;
  const std::string two = "--set sft.steps=0 --set quant.rollout.weights=int8 --set trainer.total_training_steps=2 ";
  REQUIRE(test::run_command(test::tiny_command(dir / "run", two + "--set quant.rollout.kv_cache=int8")).exit_code == 0);
  const std::string recorded = test::read_file(dir / "run/checkpoints/step_2/recipe.yaml");
  CHECK(recorded.find("\n    kv_cache: int8\n") != std::string::npos);
  CHECK(recorded.find("\n    forward: bf16\n") != std::string::npos);
  CHECK(recorded.find("\n  bitwise: false\n") != std::string::npos);
  for (const char* settings : {"", "--set quant.rollout.kv_cache=auto"}) {
    const test::Outcome rest = test::run_command(test::tiny_command(
        dir / "run", std::string("--set sft.steps=0 --set quant.rollout.weights=int8 --dry-run ") + settings));
    INFO(rest.output);
    CHECK(rest.exit_code == 0);
    CHECK(test::says(rest, "int8 KV cache (the checkpoint)"));
    CHECK(test::says(rest, "resumes after step 2"));
  }
  const test::Outcome other =
      test::run_command(test::tiny_command(dir / "run",
                                           "--set sft.steps=0 --set quant.rollout.weights=int8 --set "
                                           "quant.rollout.kv_cache=bf16 --set trainer.total_training_steps=3"));
  CHECK(other.exit_code == 2);
  CHECK(test::says(other, "quant.rollout.kv_cache bf16 (it was made with int8)"));
}

TEST_CASE("automatic keys: eval and generate sample a checkpoint of 0.2 in the formats of its run") {
  const test::Outcome scored =
      test::run_command(test::kProgram + "eval " + kResumed + "kv_cache_auto.yaml --checkpoint " + kOldCheckpoint);
  INFO(scored.output);
  CHECK(scored.exit_code == 0);
  CHECK(test::says(scored, "with int8 keys and values"));
  const std::string prompt = " --prompt 1 --set data.max_response_length=2";
  const test::Outcome given = test::run_command(test::kProgram + "generate " + kOldCheckpoint + prompt);
  INFO(given.output);
  CHECK(given.exit_code == 0);
  CHECK(test::says(given, "with int8 keys and values"));
  const test::Outcome by_recipe = test::run_command(test::kProgram + "generate " + kResumed +
                                                    "kv_cache_auto.yaml --checkpoint " + kOldCheckpoint + prompt);
  INFO(by_recipe.output);
  CHECK(test::says(by_recipe, "with int8 keys and values"));
  const test::Outcome in_bf16 =
      test::run_command(test::kProgram + "generate " + kOldCheckpoint + prompt +
                        " --set quant.rollout.weights=bf16 --set quant.rollout.rotation=none");
  INFO(in_bf16.output);
  CHECK(test::says(in_bf16, "bf16 weights with bf16 keys and values"));
}

TEST_CASE("gap probe: a run of model.path measures it once before step 1, and warns of a wide one with keys") {
  const test::TempDir dir;
  const std::string model =
      from_model(test::finished_run() / "checkpoints/step_4") + "--set trainer.total_training_steps=1 ";
  const test::Outcome close = test::run_command(test::tiny_command(dir / "close", model));
  INFO(close.output);
  CHECK(close.exit_code == 0);
  CHECK(test::says(close, "before step 1 the gap between sampler and learner has a k3 of "));
  CHECK(close.output.find("above 0.01") == std::string::npos);
  const test::Outcome resumed =
      test::run_command(test::tiny_command(dir / "close", model + "--set trainer.total_training_steps=2"));
  CHECK(resumed.exit_code == 0);
  CHECK(resumed.output.find("before step 1") == std::string::npos);
  const test::Outcome wide = test::run_command(test::tiny_command(
      dir / "wide", model + "--set quant.rollout.weights=int4 --set quant.rollout.activations=int8 --set "
                            "rollout.temperature=0.02"));
  INFO(wide.output);
  CHECK(test::says(wide, "over up to 1024 tokens, above 0.01: set rollout.bitwise with quant.learner.forward low_bit"));
}

TEST_CASE("INT4: rollouts of model.path are warned of beside a bf16 learner, and not elsewhere") {
  const test::TempDir dir;
  const auto plan = [&](const std::string& settings) {
    return test::run_command(test::tiny_command(
        dir / "run", from_model(test::finished_run() / "checkpoints/step_4") + settings + " --dry-run"));
  };
  const std::string int4 = "--set quant.rollout.weights=int4 ";
  CHECK(test::says(plan(int4 + "--set quant.learner.forward=bf16"), "quant.learner.forward bf16 beside INT4 rollouts"));
  CHECK(plan(int4 + "--set quant.learner.forward=low_bit").output.find("INT4 rollouts") == std::string::npos);
  CHECK(plan("--set quant.rollout.weights=int8").output.find("INT4 rollouts") == std::string::npos);
  const test::Outcome fresh = test::run_command(test::tiny_command(dir / "fresh", int4 + "--dry-run"));
  CHECK(fresh.output.find("INT4 rollouts") == std::string::npos);
}
