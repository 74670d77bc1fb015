// Tests runs whose learner and sampler share quantized tensors: the probe, the audit, update-aware quantization.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "decoder/cpu/teacher_forcing.h"
#include "support/catch.h"
#include "tasks/verifier.h"
#include "train/plan/formats.h"
#include "train/policy/policy.h"
#include "train/policy/quantizer.h"
#include "train/prompts/prompts.h"
#include "train/prompts/text_options.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

TEST_CASE("gap probe: in every row, and beyond its limit the run warns or stops with exit code 3") {
  const test::TempDir dir;
  const std::string limit = "--set trainer.total_training_steps=1 --set rollout_correction.gap_limit.k3_kl=";
  const test::Outcome stopped = test::run_command(test::tiny_command(dir / "stopped", limit + "1e-9"));
  CHECK(stopped.exit_code == 3);
  CHECK(stopped.output.find("gap probe") != std::string::npos);
  // The weights that training begins with are probed: nothing is evaluated or sampled with them.
  CHECK(test::read_file(dir / "stopped/metrics.jsonl").empty());
  CHECK_FALSE(fs::exists(dir / "stopped/rollouts/step_1.jsonl"));
  // Later the row that shows the gap is written first. Large steps widen the gap, on each instruction set at another
  // step by another amount: the limit is just below what the same run shows without one.
  const std::string steps = "--set trainer.total_training_steps=3 --set optim.lr=0.3 --set optim.grad_clip=0 ";
  REQUIRE(test::run_command(test::tiny_command(dir / "free", steps)).exit_code == 0);
  std::vector<double> gaps;
  for (const auto& row : test::stable_rows(dir / "free/metrics.jsonl"))
    gaps.push_back(row.value("mismatch/probe_k3_kl", 0.0));  // the first row is before any step: no probe
  REQUIRE(gaps.size() == 4);
  const auto widest = std::max_element(gaps.begin(), gaps.end());
  const test::Outcome later = test::run_command(test::tiny_command(
      dir / "later", steps + "--set rollout_correction.gap_limit.k3_kl=" + nlohmann::json(0.999 * *widest).dump()));
  CHECK(later.exit_code == 3);
  CHECK(later.output.find("gap probe") != std::string::npos);
  const auto rows = test::stable_rows(dir / "later/metrics.jsonl");
  REQUIRE(rows.size() == static_cast<std::size_t>(widest - gaps.begin()) + 1);
  CHECK(rows.back().at("mismatch/probe_k3_kl").get<double>() == *widest);
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

TEST_CASE("weight audit: reports for each tensor whether learner and sampler share it") {
  const test::TempDir dir;
  const auto audit = [&](const std::string& forward) {
    const test::Outcome outcome = test::run_command(test::tiny_command(
        dir / forward, "--set trainer.total_training_steps=1 --set quant.learner.forward=" + forward));
    REQUIRE(outcome.exit_code == 0);
    CHECK(outcome.output.find("12 × int8") != std::string::npos);
    return test::read_file(dir / forward / "quant_audit.txt");
  };
  const std::string shared = audit("low_bit"), apart = audit("bf16");
  CHECK(std::ranges::count(shared, '\n') == 14 + 1 + 3 * 7 + 1);  // tensors; an empty line; matrices of the model
  CHECK(shared.find("layers.2.down: sampler int8 [96, 256], scales [1, 96] F32; learner low_bit; same storage\n") !=
        std::string::npos);
  CHECK(shared.find("of its own") == std::string::npos);
  CHECK(apart.find("same storage") == std::string::npos);
  CHECK(
      apart.find("layers.2.down: sampler int8 [96, 256], scales [1, 96] F32; learner its fp32 masters in model.dtype; "
                 "storage of its own\n") != std::string::npos);
}

TEST_CASE("int8 and fp8 backward passes: change gradients, by little") {
  const test::TempDir dir;
  const auto first_norm = [&](const std::string& name, const std::string& settings) {
    const test::Outcome outcome = test::run_command(test::tiny_command(
        dir / name, "--set quant.learner.forward=low_bit --set trainer.total_training_steps=1 " + settings));
    INFO(outcome.output);
    REQUIRE(outcome.exit_code == 0);
    std::string rows = test::read_file(dir / name / "metrics.jsonl");
    rows.pop_back();  // the last line's end
    return nlohmann::json::parse(rows.substr(rows.rfind('\n') + 1)).at("actor/grad_norm").get<double>();
  };
  const double exact = first_norm("exact", ""), int8 = first_norm("int8", "--set quant.learner.backward=int8");
  CHECK(int8 != exact);
  CHECK(test::close(int8, exact, 0, 0.05));
  const std::string blocks = "--set quant.rollout.weights=fp8_e4m3 --set quant.rollout.granularity=block128 ";
  const double in_blocks = first_norm("blocks", blocks);
  const double fp8 = first_norm("fp8", blocks + "--set quant.learner.backward=fp8_e4m3");
  CHECK(fp8 != in_blocks);
  CHECK(test::close(fp8, in_blocks, 0, 0.1));
}

TEST_CASE("KL to the initial model: 0 at the first update, in every forward format of the learner") {
  const test::TempDir dir;
  const std::string common =
      "--set trainer.total_training_steps=2 --set actor.mini_batch_size=4 --set algorithm.kl_loss_coef=0.1 "
      "--set quant.rollout.weights=";
  const std::string settings[] = {"int8", "int8 --set quant.learner.forward=fake_quant --set quant.uaq_scale=1.5",
                                  "int8 --set quant.learner.forward=low_bit",
                                  "int4 --set quant.learner.forward=low_bit",
                                  "int8 --set quant.learner.forward=low_bit --set rollout.bitwise=true"};
  int number = 0;
  for (const std::string& one : settings) {
    CAPTURE(one);
    const fs::path run = dir / std::to_string(++number);
    const test::Outcome outcome = test::run_command(test::tiny_command(run, common + one));
    INFO(outcome.output);
    REQUIRE(outcome.exit_code == 0);
    const auto rows = test::stable_rows(run / "metrics.jsonl");
    REQUIRE(rows.back().at("step") == 2);
    CHECK(rows.at(rows.size() - 2).at("actor/kl_loss") == 0.0);
    CHECK(rows.back().at("actor/kl_loss") > 0.0);
  }
}

TEST_CASE("bitwise runs: no gap in any format, and equal bits after a resume") {
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
    CHECK(row.at("rollout/kept_tokens/mean") > 1);
    CHECK(row.at("rollout/kept_tokens/limited_fraction") == 0);  // its vocabulary is small
  }
  std::ifstream rollouts(dir / "whole/rollouts/step_1.jsonl");
  int num_rows = 0;
  for (std::string line; std::getline(rollouts, line); ++num_rows) {
    const auto row = nlohmann::json::parse(line);
    REQUIRE(row.at("tokens").size() == row.at("response_tokens"));
    REQUIRE(row.at("kept_tokens").size() == row.at("response_tokens"));
    for (std::size_t t = 0; t < row.at("tokens").size(); ++t) {
      const auto kept = row.at("kept_tokens")[t].get<std::vector<int>>();
      CHECK(std::ranges::binary_search(kept, row.at("tokens")[t].get<int>()));
    }
  }
  CHECK(num_rows == 16);
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

namespace {

/// Kills the run `command` in `folder` after its second RL checkpoint and resumes it to its end.
void kill_and_resume(const test::TempDir& dir, const fs::path& folder, const std::string& command) {
  const pid_t pid = test::start_command(command, dir / "log");
  while (!fs::exists(folder / "checkpoints/step_2") && kill(pid, 0) == 0) usleep(2'000);
  kill(-pid, SIGKILL);
  test::wait_for(pid);
  const test::Outcome outcome = test::run_command(command);
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
}

}  // namespace

TEST_CASE("int8 profile: run and profile command make equal ones, and a resume keeps and checks it") {
  const test::TempDir dir;
  const std::string automatic = "--set quant.rollout.profile=auto ";
  REQUIRE(test::run_command(test::tiny_command(dir / "whole", automatic)).exit_code == 0);
  CHECK(fs::exists(dir / "whole/checkpoints/step_4/int8_profile.safetensors"));
  const auto rows = test::stable_rows(dir / "whole/metrics.jsonl");
  CHECK(rows.at(4).at("mismatch/k3_kl") !=
        test::stable_rows(test::finished_run() / "metrics.jsonl").at(4).at("mismatch/k3_kl"));
  kill_and_resume(dir, dir / "killed", test::tiny_command(dir / "killed", automatic));
  CHECK(test::difference(dir / "whole", dir / "killed") == "");

  const std::string file = (dir / "profile.safetensors").string();
  const std::string program = std::string(QRL_BINARY_DIR) + "/qrl-train profile ";
  const std::string recipe = std::string(QRL_SOURCE_DIR) + "/tests/train/tiny.yaml ";
  const test::Outcome unready = test::run_command(program + recipe + "--out " + file);
  CHECK(unready.exit_code == 2);
  CHECK(unready.output.find("qrl-train sft") != std::string::npos);
  const test::Outcome made = test::run_command(program + recipe + "--out " + file + " --checkpoint " +
                                               (dir / "whole/checkpoints/sft_12").string());
  INFO(made.output);
  REQUIRE(made.exit_code == 0);
  CHECK(test::read_file(file) == test::read_file(dir / "whole/checkpoints/step_4/int8_profile.safetensors"));
  const std::string given = "--set quant.rollout.profile=" + file + " ";
  REQUIRE(test::run_command(test::tiny_command(dir / "given", given)).exit_code == 0);
  CHECK(test::stable_rows(dir / "given/metrics.jsonl") == rows);

  const auto refusal = [&](const std::string& name, const std::string& arguments) {
    const test::Outcome outcome = test::run_command(test::tiny_command(dir / name, given + arguments));
    CHECK(outcome.exit_code == 2);
    return outcome.output;
  };
  CHECK(refusal("other_weights", "--set sft.lr=1e-3").find("other weights") != std::string::npos);
  CHECK(refusal("other_prompts", "--set data.train_generator.max_target=29").find("training data") !=
        std::string::npos);
  CHECK(
      refusal("no_file", "--set quant.rollout.profile=none").find("quant.rollout.profile: expected auto, or a file") !=
      std::string::npos);
  CHECK_FALSE(fs::exists(dir / "no_file"));  // refused before the cold start
  std::ofstream(dir / "profile.json") << "{}";
  const std::string json = "--set quant.rollout.profile=" + (dir / "profile.json").string();
  CHECK(refusal("no_profile", json).find("profile.json: expected") != std::string::npos);
  CHECK_FALSE(fs::exists(dir / "no_profile"));
  CHECK(refusal("no_profile", json + " --dry-run").find("profile.json: expected") != std::string::npos);
  CHECK(refusal("not_int8", "--set quant.rollout.weights=bf16").find("quant.rollout.weights") != std::string::npos);
}

TEST_CASE("int8 profile: refused with another seed, which chooses other prompts") {
  const test::TempDir dir;
  const std::string program = std::string(QRL_BINARY_DIR) + "/qrl-train ", hf = (dir / "hf").string();
  const std::string weights = (test::finished_run() / "checkpoints/sft_12").string();
  REQUIRE(test::run_command(program + "export " + weights + " --out " + hf).exit_code == 0);
  const std::string settings =  // the same weights and prompts, whatever the seed
      "--set model.init.config=null --set model.path=" + hf + " --set sft.steps=0 --set data.train_generator.seed=3 ";
  const std::string file = (dir / "profile.safetensors").string();
  REQUIRE(test::run_command(program + "profile " QRL_SOURCE_DIR "/tests/train/tiny.yaml " + settings + "--out " + file)
              .exit_code == 0);
  const auto train = [&](const std::string& seed) {
    return test::run_command(test::tiny_command(
        dir / seed, settings + "--set trainer.total_training_steps=1 --set quant.rollout.profile=" + file +
                        " --set trainer.seed=" + seed));
  };
  const test::Outcome same = train("0"), other = train("1");
  INFO(same.output << other.output);
  CHECK(same.exit_code == 0);
  CHECK(other.exit_code == 2);
  CHECK(other.output.find("training data (tokens of the prompts, template included) with its seed") !=
        std::string::npos);
}

TEST_CASE("eval: samples with the checkpoint's profile, as the run did") {
  const test::TempDir dir;
  const test::Outcome run =
      test::run_command(test::tiny_command(dir / "run", test::kTelling + "--set quant.rollout.profile=auto"));
  INFO(run.output);
  REQUIRE(run.exit_code == 0);
  const std::string program = std::string(QRL_BINARY_DIR) + "/qrl-train ";
  const std::string checkpoint = (dir / "run/checkpoints/step_1").string(), exported = (dir / "hf").string();
  REQUIRE(test::run_command(program + "export " + checkpoint + " --out " + exported).exit_code == 0);
  const auto figures = [&](const std::string& policy, const std::string& name, const std::string& settings = "") {
    const test::Outcome scored =
        test::run_command(program + "eval " QRL_SOURCE_DIR "/tests/train/tiny.yaml " + test::kTelling + settings +
                          "--checkpoint " + policy + " --out " + (dir / name).string());
    INFO(scored.output);
    REQUIRE(scored.exit_code == 0);
    return nlohmann::json::parse(test::read_file(dir / name / "results.json")).at("metrics");
  };
  const nlohmann::json in_run = test::held_out_figures(test::stable_rows(dir / "run/metrics.jsonl").at(1));
  CHECK(figures(checkpoint, "with") == in_run);
  CHECK(figures(exported, "without") != in_run);  // the same weights, without a profile
  CHECK(figures(checkpoint, "int4", "--set quant.rollout.weights=int4 ") != in_run);

  // A profile file in the recipe must equal the checkpoint's, else the key would name a file that is not used.
  const auto with_file = [&](const std::string& file) {
    return test::run_command(program + "eval " QRL_SOURCE_DIR "/tests/train/tiny.yaml " + test::kTelling +
                             "--set eval.n=1 --set quant.rollout.profile=" + file + " --checkpoint " + checkpoint);
  };
  const test::Outcome none = with_file("/nope"), own = with_file(checkpoint + "/int8_profile.safetensors");
  CHECK(none.exit_code == 2);
  CHECK(none.output.find("quant.rollout.profile: expected auto, or a file") != std::string::npos);
  CHECK(own.exit_code == 0);
  const std::string other = (dir / "other.safetensors").string();
  REQUIRE(test::run_command(program + "profile " QRL_SOURCE_DIR "/tests/train/tiny.yaml " + test::kTelling +
                            "--checkpoint " + checkpoint + " --out " + other)
              .exit_code == 0);  // of the weights after training
  const test::Outcome refused = with_file(other);
  CHECK(refused.exit_code == 2);
  CHECK(refused.output.find("the profile stored in the checkpoint") != std::string::npos);
}

TEST_CASE("eval: calibrates fp8 KV on the prompts that the run had reached") {
  const test::TempDir dir;
  const std::string settings = test::kTelling + "--set quant.rollout.kv_cache=fp8_e4m3 ";
  const test::Outcome run = test::run_command(test::tiny_command(dir / "run", settings));
  INFO(run.output);
  REQUIRE(run.exit_code == 0);
  const test::Outcome scored = test::run_command(
      QRL_BINARY_DIR "/qrl-train eval " QRL_SOURCE_DIR "/tests/train/tiny.yaml " + settings + "--checkpoint " +
      (dir / "run/checkpoints/step_1").string() + " --out " + (dir / "scored").string());
  INFO(scored.output);
  REQUIRE(scored.exit_code == 0);
  CHECK(nlohmann::json::parse(test::read_file(dir / "scored/results.json")).at("metrics") ==
        test::held_out_figures(test::stable_rows(dir / "run/metrics.jsonl").at(1)));
}

TEST_CASE("fp8 KV calibration: its samples are in the checkpoint, and a resumed run has equal bits") {
  const test::TempDir dir;
  const std::string settings = "--set quant.rollout.kv_cache=fp8_e4m3 --set trainer.total_training_steps=";
  REQUIRE(test::run_command(test::tiny_command(dir / "whole", settings + "4")).exit_code == 0);
  for (const char* steps : {"2", "4"})
    REQUIRE(test::run_command(test::tiny_command(dir / "parts", settings + steps)).exit_code == 0);
  CHECK(test::stable_rows(dir / "parts/metrics.jsonl") == test::stable_rows(dir / "whole/metrics.jsonl"));
  const auto seen = nlohmann::json::parse(test::read_file(dir / "parts/checkpoints/step_2/kv_responses.json"));
  CHECK(seen.size() == 4);  // one sample of each prompt
}

TEST_CASE("fp8 KV scales made once: kept over a resume, and different from those of every update") {
  const test::TempDir dir;
  const std::string once = "--set quant.rollout.kv_cache=fp8_e4m3 --set quant.kv_calibration.when=";
  REQUIRE(test::run_command(test::tiny_command(dir / "whole", once + "once")).exit_code == 0);
  kill_and_resume(dir, dir / "killed", test::tiny_command(dir / "killed", once + "once"));
  CHECK(test::difference(dir / "whole", dir / "killed") == "");
  REQUIRE(test::run_command(test::tiny_command(dir / "always", once + "every_update")).exit_code == 0);
  CHECK(test::stable_rows(dir / "always/metrics.jsonl").at(4) != test::stable_rows(dir / "whole/metrics.jsonl").at(4));
  CHECK_FALSE(fs::exists(dir / "always/checkpoints/step_4/kv_scales.safetensors"));

  // They are those of the weights that training began with, on the prompts of the beginning.
  const std::vector<std::string> settings = {"quant.rollout.kv_cache=fp8_e4m3"};
  const train::LoadedRecipe loaded =
      train::load_recipe(train::keys(), QRL_SOURCE_DIR "/tests/train/tiny.yaml", settings, true);
  const train::Recipe& recipe = loaded.recipe;
  const train::Policy policy = train::load_policy(dir / "whole/checkpoints/sft_12");
  const auto verifier = tasks::make_verifier(train::verifier_options(recipe));
  const train::PromptSet prompts = train::load_train_prompts(recipe, policy.tokenizer, *verifier);
  model::Snapshot snapshot(policy.config, train::snapshot_formats(recipe.quant));
  snapshot.publish(policy.weights, 0);
  const decoder::KvScales first =
      decoder::calibrate_kv(snapshot, train::calibration_prompts(prompts, recipe.trainer.seed, 0),
                            {recipe.quant.kv_percentile, recipe.quant.kv_margin});
  const auto world = dist::make_solo();
  const auto kept = train::load_quantizer(dir / "whole/checkpoints/step_4", policy.config, *world).kv_scales;
  REQUIRE(kept);
  CHECK(kept->keys_LK == first.keys_LK);
  CHECK(kept->values_LK == first.values_LK);
  CHECK(kept->queries_LK.empty());

  // With e4m3 queries theirs as well.
  const std::string queries = once + "once --set quant.rollout.queries=fp8_e4m3 ";
  REQUIRE(test::run_command(test::tiny_command(dir / "queries", queries)).exit_code == 0);
  CHECK(test::stable_rows(dir / "queries/metrics.jsonl").at(4) != test::stable_rows(dir / "whole/metrics.jsonl").at(4));
  const auto with_queries = train::load_quantizer(dir / "queries/checkpoints/step_4", policy.config, *world).kv_scales;
  REQUIRE(with_queries);
  CHECK(with_queries->keys_LK == first.keys_LK);
  CHECK(with_queries->queries_LK.size() == first.keys_LK.size());
}
