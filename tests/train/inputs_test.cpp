// Tests the files that a run reads besides its recipe: no resume with other contents, no ranks with different ones.
// Also tests the message about prompts that are both trained on and held out.
#include <fstream>

#include "support/catch.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

constexpr const char* kTrainGenerator = "train_generator: {task: countdown, size: 64, max_number: 9, max_target: 30}";
constexpr const char* kValGenerator = "val_generator: {task: countdown, size: 8, max_number: 9, max_target: 30}";

/// Writes Countdown prompts of two numbers that add up to target, …, target + 5.
std::string write_prompts(const fs::path& file, int target, const std::string& source) {
  std::ofstream out(file);
  for (int i = 0; i < 6; ++i) {
    const nlohmann::json numbers = {i + 1, target - 1};
    out << nlohmann::json{{"prompt", std::to_string(i + 1) + " " + std::to_string(target - 1)},
                          {"ground_truth", nlohmann::json{{"numbers", numbers}, {"target", target + i}}.dump()},
                          {"data_source", source}}
               .dump()
        << '\n';
  }
  return file.string();
}

test::Outcome train_recipe(const fs::path& recipe, const fs::path& run, const std::string& more = "") {
  return test::run_command(QRL_BINARY_DIR "/qrl-train " + recipe.string() +
                           " --set trainer.default_local_dir=" + run.string() + " " + more);
}

}  // namespace

TEST_CASE("changed training files: refused on resume under the same names, unless allowed") {
  const test::TempDir dir;
  const fs::path train_file = dir / "train.jsonl", val_file = dir / "val.jsonl";
  write_prompts(train_file, 8, "sums");
  write_prompts(val_file, 15, "others");
  test::write_recipe(dir / "recipe.yaml", {{kTrainGenerator, "train_files: [" + train_file.string() + "]"},
                                           {kValGenerator, "val_files: [" + val_file.string() + "]"}});
  const test::Outcome first = train_recipe(dir / "recipe.yaml", dir / "run", "--set trainer.total_training_steps=1");
  REQUIRE(test::says(first, "step_1"));
  REQUIRE(first.exit_code == 0);
  CHECK_FALSE(test::says(first, "are also training prompts"));

  write_prompts(train_file, 9, "sums");
  const test::Outcome other_train = train_recipe(dir / "recipe.yaml", dir / "run");
  CHECK(other_train.exit_code == 2);
  CHECK(test::says(other_train, "data.train_files [\"" + train_file.string() + "\"], contents "));
  CHECK(test::says(other_train, "--allow-change continues with the new values"));
  write_prompts(train_file, 8, "sums");

  write_prompts(val_file, 16, "others");
  const test::Outcome other_val =
      train_recipe(dir / "recipe.yaml", dir / "run", "--set trainer.total_training_steps=2");
  CHECK(other_val.exit_code == 0);
  CHECK(test::says(other_val, "scores after step 1 cannot be compared with earlier ones"));

  write_prompts(train_file, 9, "sums");
  const test::Outcome allowed = train_recipe(dir / "recipe.yaml", dir / "run", "--allow-change");
  CHECK(allowed.exit_code == 0);
  CHECK(test::says(allowed, "changed after step 2 (--allow-change): data.train_files"));
}

TEST_CASE("changed model.path: refused on resume with a KL reference or adapters on it") {
  const test::TempDir dir;
  const std::string exported = QRL_BINARY_DIR "/qrl-train export ";
  for (const char* step : {"step_2", "step_4"}) {
    REQUIRE(test::run_command(exported + (test::finished_run() / "checkpoints" / step).string() + " --out " +
                              (dir / step).string())
                .exit_code == 0);
  }
  fs::rename(dir / "step_2", dir / "model");
  test::write_recipe(dir / "recipe.yaml", {{"{init: {config: ../../recipes/models/quickstart/config.json}, dtype",
                                            "{path: " + (dir / "model").string() + ", dtype"}});
  const std::string before = test::read_file(dir / "model/model.safetensors");
  for (const bool has_adapters : {false, true}) {
    CAPTURE(has_adapters);
    const std::string settings =
        has_adapters ? "lora.rank=4 --set quant.learner.forward=low_bit" : "algorithm.kl_loss_coef=0.1";
    const std::string steps = "--set sft.steps=0 --set " + settings + " --set trainer.total_training_steps=";
    const fs::path run = dir / (has_adapters ? "adapters" : "kl");
    const test::Outcome first = train_recipe(dir / "recipe.yaml", run, steps + "1");
    REQUIRE(test::says(first, "step_1"));
    REQUIRE(first.exit_code == 0);
    fs::copy_file(dir / "step_4/model.safetensors", dir / "model/model.safetensors",
                  fs::copy_options::overwrite_existing);
    for (const char* allowing : {"2", "2 --allow-change"}) {
      const test::Outcome other = train_recipe(dir / "recipe.yaml", run, steps + allowing);
      CHECK(other.exit_code == 2);
      CHECK(test::says(other, has_adapters ? "were trained on, hash" : "a different model (model.path, model.init)"));
    }
    std::ofstream(dir / "model/model.safetensors", std::ios::binary) << before;
    CHECK(train_recipe(dir / "recipe.yaml", run, steps + "2").exit_code == 0);
  }
}

TEST_CASE("ranks: different prompts end the job before anything is written") {
  const std::string launcher = test::mpirun(2);
  if (launcher.empty()) return test::skip("no MPI");
  const test::TempDir dir;
  for (const int rank : {0, 1}) {
    fs::create_directories(dir / std::to_string(rank));
    write_prompts(dir / std::to_string(rank) / "train.jsonl", 8 + rank, "sums");
    test::write_recipe(dir / std::to_string(rank) / "recipe.yaml", {{kTrainGenerator, "train_files: [train.jsonl]"}});
  }
  const std::string command =
      launcher + " sh -c 'exec " QRL_BINARY_DIR "/qrl-train " + (dir.path()).string() +
      "/$OMPI_COMM_WORLD_RANK/recipe.yaml --set trainer.default_local_dir=" + (dir / "run").string() + "'";
  const test::Outcome outcome = test::run_command(command);
  CHECK(outcome.exit_code == 2);
  CHECK(test::says(outcome, "rank 1: expected the inputs of rank 0"));
  CHECK(test::says(outcome, "different training prompts"));
  CHECK_FALSE(fs::exists(dir / "run/checkpoints"));
}

TEST_CASE("ranks: different weights or recipes end the job") {
  const std::string launcher = test::mpirun(2);
  if (launcher.empty()) return test::skip("no MPI");
  const test::TempDir dir;
  for (const int rank : {0, 1}) {
    REQUIRE(test::run_command(QRL_BINARY_DIR "/qrl-train export " +
                              (test::finished_run() / "checkpoints" / (rank == 0 ? "step_2" : "step_4")).string() +
                              " --out " + (dir / std::to_string(rank)).string())
                .exit_code == 0);
  }
  const auto start = [&](const std::string& settings) {
    return test::run_command(launcher + " sh -c 'exec " + test::tiny_command(dir / "run", settings) + "'");
  };
  const test::Outcome weights = start(
      "--set model.init.config=null --set sft.steps=0 --set sft.demonstrations.task=null "
      "--set model.path=" +
      dir.path().string() + "/$OMPI_COMM_WORLD_RANK");
  CHECK(weights.exit_code == 2);
  CHECK(test::says(weights, "a different model"));
  const test::Outcome recipe = start("--set optim.lr=0.00$(($OMPI_COMM_WORLD_RANK+1))");
  CHECK(recipe.exit_code == 2);
  CHECK(test::says(recipe, "rank 1: expected the recipe of rank 0, got different values of optim.lr;"));
  CHECK_FALSE(fs::exists(dir / "run/checkpoints"));
  // Hosts may have different numbers of cores.
  CHECK(start("--set trainer.total_training_steps=1 --set trainer.threads=$(($OMPI_COMM_WORLD_RANK+1))").exit_code ==
        0);
}

TEST_CASE("refused resume: earlier rows stay") {
  const test::TempDir dir;
  const fs::path run = test::copy_of_finished_run(dir / "run");
  fs::remove_all(run / "checkpoints");
  const std::string given = "--resume " + (test::finished_run() / "checkpoints/step_4").string();
  CHECK(test::run_command(test::tiny_command(run, given + " --set optim.lr=5e-4")).exit_code == 2);
  CHECK_FALSE(fs::exists(run / "earlier_1"));
  CHECK(test::read_file(run / "metrics.jsonl") == test::read_file(test::finished_run() / "metrics.jsonl"));
  CHECK(test::run_command(test::tiny_command(run, given + " --set trainer.total_training_steps=5")).exit_code == 0);
  CHECK(fs::exists(run / "earlier_1/metrics.jsonl"));
}

TEST_CASE("moved files: with unchanged contents they do not refuse a resume") {
  const test::TempDir dir;
  const auto write = [&](const std::string& folder) {
    fs::create_directories(dir / folder);
    const std::string file = write_prompts(dir / folder / "train.jsonl", 8, "sums");
    fs::copy(QRL_SOURCE_DIR "/recipes/models/quickstart/config.json", dir / folder / "config.json");
    test::write_recipe(dir / folder / "recipe.yaml", {{kTrainGenerator, "train_files: [train.jsonl]"},
                                                      {"../../recipes/models/quickstart/config.json", "config.json"}});
    return dir / folder / "recipe.yaml";
  };
  REQUIRE(train_recipe(write("here"), dir / "run", "--set trainer.total_training_steps=1").exit_code == 0);
  const test::Outcome moved = train_recipe(write("there"), dir / "run");
  CHECK(test::says(moved, "step 4/4"));
  CHECK(moved.exit_code == 0);
}

TEST_CASE("held-out prompts: those also in training are counted in a warning, and each source has a score") {
  const test::TempDir dir;
  write_prompts(dir / "train.jsonl", 8, "sums");
  write_prompts(dir / "val.jsonl", 8, "held");
  std::ofstream(dir / "val.jsonl", std::ios::app)
      << R"({"prompt": "3 4", "ground_truth": "{\"numbers\": [3, 4], \"target\": 7}", "data_source": "held"})" << '\n';
  test::write_recipe(dir / "recipe.yaml", {{kTrainGenerator, "train_files: [" + (dir / "train.jsonl").string() + "]"},
                                           {kValGenerator, "val_files: [" + (dir / "val.jsonl").string() + "]"}});
  const test::Outcome shared = train_recipe(dir / "recipe.yaml", dir / "run", "--dry-run");
  CHECK(shared.exit_code == 0);
  CHECK(test::says(shared, "6 of the 7 held-out prompts of \"held\" are also training prompts"));

  write_prompts(dir / "val.jsonl", 15, "countdown");
  test::write_recipe(dir / "both.yaml",
                     {{kValGenerator, kValGenerator + ("\n  val_files: [" + (dir / "val.jsonl").string() + "]")}});
  const test::Outcome both = train_recipe(dir / "both.yaml", dir / "run", "--dry-run");
  CHECK(both.exit_code == 2);
  CHECK(test::says(both, "val.jsonl:1: expected a data source other than data.val_generator's"));
  CHECK_FALSE(test::says(both, "parameters"));  // no plan before the error
}

TEST_CASE("fresh start: rows of an earlier run are set aside") {
  const test::TempDir dir;
  const fs::path run = test::copy_of_finished_run(dir / "run");
  const std::string earlier = test::read_file(run / "metrics.jsonl");
  for (const std::string& checkpoint : test::names_in(run / "checkpoints")) {
    test::flip_bit(run / "checkpoints" / checkpoint / "state.json", 80);
  }
  const test::Outcome again = test::run_command(test::tiny_command(run));
  CHECK(again.exit_code == 0);
  CHECK(test::says(again, "earlier_1"));
  CHECK(test::read_file(run / "earlier_1/metrics.jsonl") == earlier);
  CHECK(test::names_in(run / "earlier_1/rollouts").size() == 4);
  CHECK(fs::exists(run / "earlier_1/config.yaml"));
  CHECK(test::difference(test::finished_run(), run) == "");

  // A second, shorter run: nothing of the longer one remains.
  fs::remove_all(run / "checkpoints");
  const test::Outcome never =
      test::run_command(test::tiny_command(run, "--resume never --set trainer.total_training_steps=1"));
  CHECK(never.exit_code == 0);
  CHECK(test::says(never, "earlier_2"));
  CHECK(test::names_in(run / "rollouts") == std::vector<std::string>{"step_1.jsonl"});
  CHECK(test::read_file(run / "earlier_2/metrics.jsonl").size() > earlier.size() / 2);
}

TEST_CASE("untokenizable bytes: counted in each step, and reported when data are read") {
  const test::TempDir dir;
  fs::create_directory(dir / "model");
  std::ifstream in(QRL_SOURCE_DIR "/recipes/models/quickstart/config.json");
  nlohmann::json config = nlohmann::json::parse(in);
  config["vocab_size"] = 400;
  std::ofstream(dir / "model/config.json") << config.dump();
  fs::copy_file(QRL_SOURCE_DIR "/tests/data/golden/tokenizer_bpe/lacks_bytes.json", dir / "model/tokenizer.json");
  std::ofstream(dir / "model/tokenizer_config.json") << R"({"eos_token": "<|end|>"})";
  std::ofstream rows(dir / "rows.jsonl");
  for (int i = 0; i < 4; ++i)
    rows << R"({"prompt": "1 2)" << (i < 3 ? R"(\u0004\u0005)" : "") << R"( = )" << i
         << R"(", "answer": {"numbers": [1, 2], "target": 3}})" << '\n';
  rows.close();
  const test::Outcome run = test::run_command(test::tiny_command(
      dir / "run", "--set sft.demonstrations.task=null --set sft.steps=0 --set model.init.config=" +
                       (dir / "model/config.json").string() +
                       " --set data.train_generator.task=null --set data.val_generator.task=null "
                       "--set eval.freq=0 --set trainer.total_training_steps=1 --set data.train_files=[" +
                       (dir / "rows.jsonl").string() + "]"));
  CHECK(test::says(run,
                   "rows.jsonl: 6 bytes without a token in the vocabulary are left out, as in the tokenizers library"));
  REQUIRE(run.exit_code == 0);
  CHECK(test::stable_rows(dir / "run/metrics.jsonl").back().at("data/unencodable_bytes") == 6);
  CHECK_FALSE(test::stable_rows(test::finished_run() / "metrics.jsonl").back().contains("data/unencodable_bytes"));
  const test::Outcome tokens =
      test::run_command("printf 'cat\\004' | " + test::kProgram + "tokenize " + (dir / "model").string());
  CHECK(test::says(tokens, "standard input: 1 byte without a token in the vocabulary is left out"));
}
