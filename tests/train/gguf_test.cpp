// Runs the program on GGUF files: export, import, training.
#include <filesystem>
#include <fstream>

#include "support.h"
#include "support/catch.h"
#include "support/files.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

void gguf_refuses(const std::string& arguments, const std::string& part) {
  const test::Outcome outcome = test::run_command(test::kProgram + arguments);
  CHECK(outcome.exit_code == 2);
  CHECK(test::says(outcome, part));
}

}  // namespace

TEST_CASE("export to GGUF: contradicting options and existing files are refused") {
  const test::TempDir dir;
  std::ofstream(dir / "file") << "mine";
  const std::string folder = QRL_SOURCE_DIR "/tests/data/golden/hf_llama", file = (dir / "x.gguf").string();
  gguf_refuses("export " + folder, "--out: expected --out DIR or --gguf FILE, got neither");
  gguf_refuses("export " + folder + " --out " + (dir / "hf").string() + " --gguf " + file, "got both");
  gguf_refuses("export " + folder + " --out " + (dir / "hf").string() + " --type q8_0", "add --gguf");
  gguf_refuses("export " + folder + " --gguf " + file + " --type q3_0", "bf16, q8_0, q4_0");
  gguf_refuses("export " + folder + " --gguf " + file + " --dtype float32", "--dtype: expected no --gguf with it");
  gguf_refuses("export " + folder + " --gguf " + file + " --quantized", "--quantized: expected no --gguf with it");
  gguf_refuses("export " + folder + " --gguf " + (dir / "file").string(), "expected the name of a new file");
  CHECK(test::read_file(dir / "file") == "mine");
  CHECK_FALSE(fs::exists(file));
}

TEST_CASE("model.path of a GGUF file: trains as the folder that import makes of it, bit for bit") {
  const test::TempDir dir;
  const fs::path base = dir / "base", file = dir / "base.gguf", folder = dir / "folder";
  const auto runs = [&](const std::string& command) {
    const test::Outcome outcome = test::run_command(command);
    INFO(outcome.output);
    REQUIRE(outcome.exit_code == 0);
    return outcome;
  };
  runs(test::kProgram + "export " + (test::finished_run() / "checkpoints/sft_12").string() + " --out " + base.string());
  std::string tokenizer = test::read_file(base / "tokenizer.json");
  for (std::size_t at = 0; (at = tokenizer.find("\"use_regex\": false", at)) != std::string::npos;)
    tokenizer.replace(at, 18, "\"use_regex\": true");  // GPT-2's split, which llama.cpp names
  std::ofstream(base / "tokenizer.json") << tokenizer;
  runs(test::kProgram + "export " + base.string() + " --gguf " + file.string());
  runs(test::kProgram + "import " + file.string() + " --out " + folder.string());
  const auto trained = [&](const std::string& name, const fs::path& model) {
    const test::Outcome outcome = runs(test::tiny_command(
        dir / name,
        "--set model.init.config=null --set sft.steps=0 --set trainer.total_training_steps=1 --set model.path=" +
            model.string()));
    CHECK(test::says(outcome, "model file") == (model == file));
    return test::read_file(dir / name / "checkpoints/step_1/model.safetensors");
  };
  CHECK(trained("from_file", file) == trained("from_folder", folder));
  const test::Outcome adapters = test::run_command(test::tiny_command(
      dir / "no",
      "--set model.init.config=null --set sft.steps=0 --set lora.rank=4 --set model.path=" + file.string()));
  CHECK(adapters.exit_code == 2);
  CHECK(test::says(adapters, "qrl-train import " + file.string() + " --out DIR"));
}
