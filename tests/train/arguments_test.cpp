// Tests the messages of the command line for invalid arguments.
#include <fstream>
#include <sstream>

#include "support/catch.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

void refuses(const std::string& arguments, const std::string& what) {
  const test::Outcome outcome = test::run_command(test::kProgram + arguments);
  INFO(arguments << "\n" << outcome.output);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.output.starts_with("error: "));
  CHECK(outcome.output.find(what) != std::string::npos);
}

}  // namespace

TEST_CASE("arguments: an unknown argument gets one line with advice") {
  refuses(test::kTiny + " optim.lr=1e-4 --dry-run", "set the recipe key with --set optim.lr=1e-4");
  refuses(test::kTiny + " ++optim.lr=1e-4 --dry-run", "set the recipe key with --set optim.lr=1e-4");
  refuses("optim.lr=1e-4",
          "expected a recipe file first, got \"optim.lr=1e-4\"; type qrl-train RECIPE --set optim.lr=1e-4");
  refuses("eval " + test::kTiny + " eval.n=4", "--set eval.n=4");
  refuses(test::kTiny + " --dryrun", "did you mean --dry-run?");
  refuses("nowhere/recipe.yaml", "no such file: \"nowhere/recipe.yaml\"");
  refuses("recipe.yml --dry-run", "no such file: \"recipe.yml\"");
  refuses("add.yam --dry-run", "expected a recipe file, got no such file: \"add.yam\"; check the path");
  refuses(test::kTiny + " --optim.lr=1e-4 --dry-run", "set the recipe key with --set optim.lr=1e-4");
  refuses(test::kTiny + " --trainer.total_training_steps 5", "--set trainer.total_training_steps=5");
  refuses(test::kTiny + " --trainer.max_steps=5", "here it is trainer.total_training_steps");
  refuses(test::kTiny + " --learning_rate 1e-4", "here it is optim.lr (--set KEY=VALUE)");
  refuses("--config-name tiny", "give the recipe file as the first argument: qrl-train RECIPE.yaml");
  refuses("--config-path . --config-name tiny", "give the recipe file as the first argument: qrl-train RECIPE.yaml");
  refuses("evil " + test::kTiny, "did you mean eval?");
  refuses("generate x --prompt a --max_tokens 4", "did you mean --max-tokens?");
  refuses("generate x --prompt a -n 2", "got \"-n\"; did you mean --n?");
  refuses("eval " + test::kTiny + " --n 4", "set the recipe key with --set eval.n=4");
  refuses(test::kTiny + " --set rollout.n 4", "got \"4\"; write --set rollout.n=4");
  refuses("train " + test::kTiny, "got \"train\"; type qrl-train " + test::kTiny);
  refuses(test::kTiny + " --dry-run --set trainer.device=gpu", "here it is cuda");
  refuses("export x --out y --dtype float16",
          "--dtype: expected one of float32, bfloat16, got \"float16\"; see qrl-train export --help");
  refuses(test::kTiny + " --dry-run --resume false",
          "--resume: expected auto | never | PATH, got \"false\"; use never");
  refuses(test::kTiny + " --set 'data.prompt_template=Q: {prompt}' --dry-run", "--set 'data.prompt_template=\"…\"'");
  CHECK(test::run_command(test::kProgram + test::kTiny + " --set 'data.prompt_template=\"Q: {prompt}\"' --dry-run")
            .exit_code == 0);
}

TEST_CASE("arguments: parser errors state expected and got") {
  const auto says = [](const std::string& arguments, const std::string& error) {
    const test::Outcome outcome = test::run_command(test::kProgram + arguments);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.output == "error: qrl-train" + error + "\n");
  };
  says("generate", " generate: expected MODEL, got none; see qrl-train generate --help");
  says("data", " data: expected one of countdown, sudoku, arithmetic, sums, got none; see qrl-train data --help");
  says("judge a b", " judge: expected no further argument, got \"a\"; see qrl-train judge --help");
  says("generate x --prompt a --n 0",
       " generate: --n: expected an integer in 1..1024, got 0; see qrl-train generate --help");
  says("generate x --prompt a --n 2.5",
       " generate: --n: expected an integer in 1..1024, got \"2.5\"; see qrl-train generate --help");
  says("generate x --prompt", " generate: --prompt: expected TEXT, got no value; see qrl-train generate --help");
  says("generate x --prompt a --max-tokens 0",
       " generate: --max-tokens: expected integer from 1 to 1048576, got 0; see qrl-train generate --help");
  says("report r --group x", " report: --group: expected seed, got \"x\"; see qrl-train report --help");
  says("report r --best", " report: --best: expected --samples as well, got none; see qrl-train report --help");
  says("report r --samples 2 --best --worst",
       " report: expected --best or --worst, got both; see qrl-train report --help");
  says("data countdown --out f --split tran",
       " data countdown: --split: expected one of train, held_out, got \"tran\"; did you mean train?; see qrl-train "
       "data "
       "countdown --help");
  says(test::kTiny + " --allow-absent", ": --allow-absent: expected --dry-run as well, got none; see qrl-train --help");
  says(test::kTiny + " --ranks 0", ": --ranks: expected an integer in 1..256, got 0; see qrl-train --help");
  says("eval " + test::kTiny + " --ranks two",
       " eval: --ranks: expected an integer in 1..256, got \"two\"; see qrl-train eval --help");
  says("generate x --prompt a --ranks 2",
       " generate: expected no further argument, got \"--ranks\"; see qrl-train generate --help");
  says(test::kTiny + " --dry-run --print-config",
       ": expected --print-config or --dry-run, got both; see qrl-train --help");
}

TEST_CASE("option --ranks: refused beside a launcher's ranks") {
  const test::Outcome outcome =
      test::run_command("OMPI_COMM_WORLD_SIZE=2 " + test::kProgram + test::kTiny + " --dry-run --ranks 2");
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.output ==
        "error: --ranks: expected no launcher (mpirun or srun), got the environment variable OMPI_COMM_WORLD_SIZE; "
        "start it without mpirun or srun, or without --ranks\n");
}

TEST_CASE("option --help: shows ranges and defaults once") {
  for (const std::string command : {"generate", "data countdown"}) {
    const test::Outcome help = test::run_command(test::kProgram + command + " --help");
    INFO(help.output);
    CHECK(help.exit_code == 0);
    CHECK(help.output.find("INT:INT") == std::string::npos);
  }
  CHECK(test::run_command(test::kProgram + "data countdown --help").output.find("=1000") != std::string::npos);
}

TEST_CASE("option --help: fits 24 lines and 80 columns, and --help-all has the rest") {
  const test::Outcome help = test::run_command(test::kProgram + "--help"),
                      all = test::run_command(test::kProgram + "--help-all");
  INFO(help.output);
  CHECK((help.exit_code == 0 && all.exit_code == 0));
  std::istringstream lines(help.output);
  int num_lines = 0;
  for (std::string line; std::getline(lines, line); ++num_lines) CHECK(line.size() <= 80);
  CHECK(num_lines <= 24);
  for (const char* word :
       {"RECIPE", "--set KEY=VALUE", "--resume", "--dry-run", "--help-all", "eval", "export", "watch", "tokenize"})
    CHECK(help.output.find(word) != std::string::npos);
  CHECK(help.output.find("optim.lr") == std::string::npos);
  for (const char* word : {"optim.lr ", "--allow-change", "--ground-truth-key", "--version", "Exit codes"})
    CHECK(all.output.find(word) != std::string::npos);
}

TEST_CASE("option --resume: without a value it is auto") {
  for (const std::string words :
       {"--print-config --resume", "--resume --print-config", "--print-config --resume auto"}) {
    const test::Outcome outcome = test::run_command(test::kProgram + test::kTiny + " " + words);
    INFO(outcome.output);
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.output.find("resume_mode: auto ") != std::string::npos);
  }
}

TEST_CASE("data, profile: overwrite nothing, and a profile needs int8 weights") {
  const test::TempDir dir;
  const std::string out = (dir / "tasks.jsonl").string();
  REQUIRE(test::run_command(test::kProgram + "data countdown --size 3 --out " + out).exit_code == 0);
  const std::string before = test::read_file(out);
  refuses("data countdown --size 4 --out " + out, "the name of a new file");
  CHECK(test::read_file(out) == before);
  const std::string profile = "profile " + test::kTiny + " --set sft.steps=0 --out " + (dir / "p.safetensors").string();
  refuses(profile + " --set quant.rollout.weights=fp8_e4m3", "int8 with qrl-train profile");
  REQUIRE(test::run_command(test::kProgram + profile).exit_code == 0);
  refuses(profile, "the name of a new file");
}

TEST_CASE("model.path, RECIPE: another kind of path is named, with advice") {
  const std::string run = test::finished_run().string(), model = run + "/checkpoints/step_4";
  const test::TempDir dir;
  const std::string with_path = test::kTiny + " --set sft.steps=0 --set model.init.config=null --set model.path=";
  for (const std::string command : {"--dry-run ", "eval "}) {
    const auto says = [&](const std::string& path, const std::string& what) {
      refuses(command == "eval " ? command + with_path + path : with_path + path + " --dry-run", what);
    };
    says(dir.path().string(), "model.path: expected a Hugging Face folder, got " + dir.path().string() +
                                  ", which has no config.json; name the folder");
    says(model + "/model.safetensors", "model.safetensors; name its folder");
    says(run, "got a run's folder; name a checkpoint in");
  }
  refuses(run, "got a run folder; pass its recipe (" + run + "/config.yaml) to resume");
}

TEST_CASE("check: accepts a model's folder, and says what it looked for") {
  const fs::path model = test::finished_run() / "checkpoints/step_4";
  for (const char* kind : {"config", "safetensors", "tokenizer"})
    CHECK(test::run_command(test::kProgram + "check " + kind + " " + model.string()).exit_code == 0);
  const test::TempDir dir;
  refuses("check safetensors " + dir.path().string(), "model.safetensors or model.safetensors.index.json");
  refuses("check config " + dir.path().string(), "a folder with config.json");
  refuses("check index " + model.string(), "got one model.safetensors, which needs no index");
}

TEST_CASE("tokenize: refuses bytes that are no text") {
  const std::string model = (test::finished_run() / "checkpoints/step_4").string();
  CHECK(test::run_command("printf '\\377\\376 x' | " + test::kProgram + "tokenize " + model).exit_code == 2);
  CHECK(test::run_command("printf 'x' | " + test::kProgram + "tokenize " + model).exit_code == 0);
}
