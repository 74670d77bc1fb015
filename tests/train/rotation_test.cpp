// Tests runs whose sampler's matrices are rotated with their inputs: the tiny recipe's widths are multiples of 32.
#include <cstdio>
#include <fstream>

#include "state/folder.h"
#include "support/catch.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

constexpr const char* kRotated = " --set quant.rollout.rotation_block=32 ";

/// Writes a recipe of a model that blocks of 64 fit, so that auto selects hadamard.
fs::path recipe_that_fits(const fs::path& dir) {
  std::string config = test::read_file(QRL_SOURCE_DIR "/recipes/models/quickstart/config.json");
  for (const auto& [from, to] : {std::pair{"\"hidden_size\": 96", "\"hidden_size\": 64"},
                                 {"\"num_attention_heads\": 3", "\"num_attention_heads\": 2"}}) {
    const std::size_t at = config.find(from);
    REQUIRE(at != std::string::npos);
    config.replace(at, std::string(from).size(), to);
  }
  std::ofstream(dir / "config.json") << config;
  test::write_recipe(dir / "fits.yaml",
                     {{"../../recipes/models/quickstart/config.json", (dir / "config.json").string()}});
  return dir / "fits.yaml";
}

std::string run_of(const fs::path& recipe, const fs::path& run, const std::string& arguments = "") {
  return test::kProgram + recipe.string() + " --set trainer.default_local_dir=" + run.string() + " " + arguments;
}

/// Turns a checkpoint into one of a program without the keys: its recipe lacks them.
void drop_rotation(const fs::path& checkpoint) {
  const fs::path whole = checkpoint.string() + ".whole";
  fs::rename(checkpoint, whole);
  state::commit_folder(
      checkpoint,
      [&](const fs::path& tmp) {
        for (const auto& entry : fs::directory_iterator(whole)) {
          if (entry.path().filename() != "manifest.json") fs::copy(entry.path(), tmp / entry.path().filename());
        }
        std::ifstream from(whole / "recipe.yaml");
        std::ofstream to(tmp / "recipe.yaml");
        int dropped = 0;
        for (std::string line; std::getline(from, line);) {
          if (line.find(" rotation") == std::string::npos) to << line << "\n";
          else ++dropped;
        }
        REQUIRE(dropped == 2);
      },
      state::folder_facts(whole));
  fs::remove_all(whole);
}

}  // namespace

TEST_CASE("rotation: reported at the start, and a block that does not divide a matrix is refused by name") {
  const test::TempDir dir;
  const auto dry = [&](const std::string& arguments) {
    return test::run_command(test::tiny_command(dir / "run", arguments + " --dry-run"));
  };
  CHECK(test::says(dry(""), "int8 (default) weights, inputs not rotated (auto), "));
  CHECK(test::says(dry(kRotated), "int8 (default) weights, inputs rotated by blocks of 32 (hadamard) (auto), "));
  CHECK(test::says(dry("--set quant.rollout.weights=bf16"), "bf16 weights, bf16 KV cache"));
  const test::Outcome refused = dry("--set quant.rollout.rotation=hadamard");
  CHECK(refused.exit_code == 2);
  CHECK(test::says(refused, "96 inputs of model.layers.0.self_attn.q_proj"));
}

TEST_CASE("rotated bitwise run: resumes with equal bits, and its parts report the rotation") {
  const test::TempDir dir;
  const std::string bitwise = std::string(kRotated) +
                              "--set rollout.bitwise=true --set quant.learner.forward=low_bit "
                              "--set quant.rollout.kv_cache=bf16 ";
  REQUIRE(test::run_command(test::tiny_command(dir / "whole", bitwise)).exit_code == 0);
  REQUIRE(
      test::run_command(test::tiny_command(dir / "cut", bitwise + "--set trainer.total_training_steps=2")).exit_code ==
      0);
  const test::Outcome resumed = test::run_command(test::tiny_command(dir / "cut", bitwise));
  INFO(resumed.output);
  REQUIRE(resumed.exit_code == 0);
  CHECK(test::difference(dir / "whole", dir / "cut") == "");
  for (const nlohmann::json& row : test::stable_rows(dir / "whole/metrics.jsonl"))
    if (row.contains("mismatch/probe_k3_kl")) CHECK(row.at("mismatch/probe_k3_kl") == 0);
  CHECK(test::read_file(dir / "whole/quant_audit.txt").find(", inputs rotated by 32") != std::string::npos);
  CHECK(test::read_file(dir / "whole/config.yaml").find("rotation: hadamard") != std::string::npos);

  const std::string checkpoint = (dir / "whole/checkpoints/step_4").string();
  const test::Outcome exported =
      test::run_command(test::kProgram + "export " + checkpoint + " --quantized --out " + (dir / "out").string());
  CHECK(exported.exit_code == 2);
  CHECK(test::says(exported, "a run with quant.rollout.rotation none, got hadamard"));
  const test::Outcome generated = test::run_command(test::kProgram + "generate " + checkpoint + " --prompt '1 2 3'");
  CHECK(generated.exit_code == 0);
  CHECK(test::says(generated, "int8 weights (inputs rotated by blocks of 32 (hadamard)) with bf16 keys"));
  // The setting is fixed for a run.
  const test::Outcome changed = test::run_command(test::tiny_command(
      dir / "cut", bitwise + "--set quant.rollout.rotation=none --set trainer.total_training_steps=5 "
                             "--set quant.rollout.rotation_block=64 --allow-change"));
  CHECK(changed.exit_code == 2);
  CHECK(test::says(changed, "quant.rollout.rotation none (it was made with hadamard)"));
}

TEST_CASE("rotation: a checkpoint without the key resumes without one, with equal bits") {
  const test::TempDir dir;
  const fs::path recipe = recipe_that_fits(dir.path());
  const std::string none = "--set quant.rollout.rotation=none ";
  REQUIRE(test::run_command(run_of(recipe, dir / "whole", none)).exit_code == 0);
  REQUIRE(test::run_command(run_of(recipe, dir / "old", none + "--set trainer.total_training_steps=2")).exit_code == 0);
  drop_rotation(dir / "old/checkpoints/step_2");
  const test::Outcome resumed = test::run_command(run_of(recipe, dir / "old"));
  INFO(resumed.output);
  REQUIRE(resumed.exit_code == 0);
  CHECK(test::says(resumed, "inputs not rotated"));
  CHECK(test::difference(dir / "whole", dir / "old") == "");
  const test::Outcome generated = test::run_command(test::kProgram + "generate " + recipe.string() + " --checkpoint " +
                                                    (dir / "old/checkpoints/step_2").string() + " --prompt '1 2 3'");
  CHECK(test::says(generated, "sampled from int8 weights with"));

  // The same recipe in a new run rotates the matrices, and other tokens follow.
  const test::Outcome today = test::run_command(run_of(recipe, dir / "new"));
  REQUIRE(today.exit_code == 0);
  CHECK(test::says(today, "inputs rotated by blocks of 64 (hadamard)"));
  CHECK(test::difference(dir / "whole", dir / "new") != "");

  const test::Outcome gap =
      test::run_command(test::kProgram + "check gap " + (dir / "new/checkpoints/step_4").string() + " --seed 3");
  REQUIRE(gap.exit_code == 0);
  CHECK(test::says(gap, " in 16 samples, drawn with bf16 weights at temperature 1, seed 3"));
  const auto k3_of = [&](const std::string& setting) {
    const std::size_t at = gap.output.find("\n" + setting + "  ");
    REQUIRE(at != std::string::npos);
    double megabytes = 0, k3 = -1;
    REQUIRE(std::sscanf(gap.output.c_str() + at + 1 + setting.size(), "%lf %lf", &megabytes, &k3) == 2);
    return k3;
  };
  CHECK(k3_of("int8 rotated, bitwise") == 0);
  CHECK(k3_of("int8 rotated") > 0);
  CHECK(k3_of("bf16") < k3_of("int8"));
  CHECK(k3_of("int8") < k3_of("int4"));
  CHECK(test::says(gap, "recommended (fewest bytes with a k3 below 0.03): int4 ("));
}

TEST_CASE("check gap: says which settings do not fit a model's widths") {
  const test::Outcome gap =
      test::run_command(test::kProgram + "check gap " + (test::finished_run() / "checkpoints/step_4").string());
  CHECK(gap.exit_code == 0);
  CHECK(test::says(gap, "int8 rotated                a block of 64 does not divide the input size of every matrix"));
  CHECK(test::says(gap, "\nint8 "));
}
