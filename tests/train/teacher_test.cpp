// Tests on-policy distillation, and the messages about settings without effect.
#include "support/catch.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

nlohmann::json first_row(const fs::path& run, const std::string& settings) {
  const test::Outcome outcome =
      test::run_command(test::tiny_command(run,
                                           " --set trainer.total_training_steps=1 --set eval.freq=0 "
                                           "--set algorithm.entropy_coef=0 " +
                                               settings));
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  return test::stable_rows(run / "metrics.jsonl").back();
}

}  // namespace

TEST_CASE("teacher: with the learner's weights and format every advantage is exactly 0") {
  const test::TempDir dir;
  (void)first_row(dir / "one", "");
  const std::string teacher =
      " --set algorithm.reward_coef=0 --set algorithm.teacher.path=" + (dir / "one/checkpoints/sft_12").string();
  const auto same = first_row(dir / "same", teacher);
  CHECK(same.at("teacher/k1_kl") == 0.0);
  CHECK(same.at("actor/grad_norm") == 0.0);
  const std::string int8 = " --set algorithm.teacher.weights=int8";
  const auto other = first_row(dir / "other", teacher + int8);
  CHECK(other.at("teacher/k1_kl") != 0.0);
  CHECK(other.at("actor/grad_norm") > 0);
  const auto low_bit = first_row(dir / "low_bit", teacher + int8 + " --set quant.learner.forward=low_bit");
  CHECK(low_bit.at("teacher/k1_kl") == 0.0);
  CHECK(low_bit.at("actor/grad_norm") == 0.0);
  const auto bitwise =
      first_row(dir / "bitwise", teacher + int8 + " --set rollout.bitwise=true --set quant.learner.forward=low_bit");
  CHECK(bitwise.at("teacher/k1_kl") == 0.0);
  const auto w4a8 =
      first_row(dir / "w4a8", teacher +
                                  " --set algorithm.teacher.weights=int4 --set quant.rollout.weights=int4 "
                                  "--set quant.rollout.activations=int8 --set quant.learner.forward=low_bit");
  CHECK(w4a8.at("teacher/k1_kl") == 0.0);
  // The policy's inputs are rotated, a teacher's never are: the same weights round to other values.
  const auto rotated =
      first_row(dir / "rotated", teacher + int8 +
                                     " --set quant.rollout.rotation=hadamard --set "
                                     "quant.rollout.rotation_block=32 --set quant.learner.forward=low_bit");
  CHECK(rotated.at("teacher/k1_kl") != 0.0);
}

TEST_CASE("teacher: another vocabulary or missing files end a run with exit code 2") {
  const test::TempDir dir;
  const auto refuses = [&](const std::string& settings, const std::string& about) {
    const test::Outcome outcome = test::run_command(test::tiny_command(dir / "run", settings));
    INFO(outcome.output);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.output.find(about) != std::string::npos);
  };
  refuses(" --set algorithm.teacher.path=/nowhere", "/nowhere");
  refuses(" --set algorithm.teacher.path=" + (test::shipped_data() / "golden" / "hf_qwen2").string(), "tokenizer");
}

TEST_CASE("one update a step: run and dry run name the settings without effect") {
  const auto says = [](const std::string& settings) {
    return test::run_command(QRL_BINARY_DIR "/qrl-train " QRL_SOURCE_DIR "/tests/train/tiny.yaml --dry-run " + settings)
        .output;
  };
  const std::string one = " --set actor.mini_batch_size=4", idle = "these have no effect: ";
  CHECK(says(one + " --set algorithm.name=gspo").find(idle + "algorithm.name gspo;") != std::string::npos);
  CHECK(says(one + " --set rollout_correction.acr=true --set algorithm.clip_ratio_high=0.3")
            .find(idle + "algorithm.clip_ratio_high 0.3, rollout_correction.acr true;") != std::string::npos);
  CHECK(says(one).find("have no effect") == std::string::npos);
  // A run's config.yaml has every key. A value that the key has anyway is not named.
  const std::string given = " --set algorithm.name=grpo --set algorithm.clip_ratio_low=0.2";
  CHECK(says(one + given).find("have no effect") == std::string::npos);
  CHECK(says(one + given + " --set algorithm.clip_ratio_high=0.3").find(idle + "algorithm.clip_ratio_high 0.3;") !=
        std::string::npos);
  CHECK(says(" --set algorithm.name=gspo").find("have no effect") == std::string::npos);
  // The settings that dapo adds to grpo; with several updates they have an effect.
  const std::string higher = "algorithm.clip_ratio_high 0.28 (default), algorithm.clip_ratio_c 10.0 (default);";
  CHECK(says(one + " --set algorithm.name=dapo").find(idle + higher) != std::string::npos);
  CHECK(says(" --set algorithm.name=dapo").find("have no effect") == std::string::npos);
  CHECK(says(one + " --set algorithm.name=dr_grpo").find("have no effect") == std::string::npos);
  CHECK(says(one + " --set mode=qurl --set quant.uaq_scale=1 --set algorithm.entropy_coef=0")
            .find("rollout_correction.acr true (mode qurl)") != std::string::npos);
}

TEST_CASE("positive_only: the run names clip bounds that only act on negative advantages") {
  const auto says = [](const std::string& settings) {
    return test::run_command(QRL_BINARY_DIR "/qrl-train " QRL_SOURCE_DIR "/tests/train/tiny.yaml --dry-run " + settings)
        .output;
  };
  const std::string positive = " --set algorithm.positive_only=true",
                    idle = "with algorithm.positive_only no advantage is negative, so these have no effect: ";
  CHECK(says(positive + " --set algorithm.clip_ratio_c=3").find(idle + "algorithm.clip_ratio_c 3.0;") !=
        std::string::npos);
  CHECK(says(positive + " --set algorithm.name=dapo").find(idle + "algorithm.clip_ratio_c 10.0 (default);") !=
        std::string::npos);
  CHECK(says(positive + " --set algorithm.name=tbpo --set rollout_correction.method=tbpo"
                        " --set algorithm.tbpo.neg_seq_clip_ratio_low=0.1")
            .find(idle + "algorithm.tbpo.neg_seq_clip_ratio_low 0.1, "
                         "algorithm.tbpo.neg_seq_clip_ratio_high 7.0e-4 (default);") != std::string::npos);
  CHECK(says(positive + " --set algorithm.name=sapo").find(idle + "algorithm.sapo.tau_neg 1.05 (default);") !=
        std::string::npos);
  CHECK(says(positive).find("have no effect") == std::string::npos);
  CHECK(says(" --set algorithm.clip_ratio_c=3").find("have no effect") == std::string::npos);
}
