// Tests the shape of Qwen3-0.6B with random weights in a user's form: a bf16 folder with Qwen3's tokenizer.
#include <cstdlib>
#include <fstream>

#include "model/weights.h"
#include "support/catch.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

/// Like `run_command`, but fails the case unless the exit code is 0; returns the output.
std::string output_of(const std::string& command) {
  const test::Outcome outcome = test::run_command(command);
  INFO(command << "\n" << outcome.output);
  REQUIRE(outcome.exit_code == 0);
  return outcome.output;
}

/// Reads "  together   ~   13.53 GiB" of a dry run.
double predicted_gib(const std::string& dry_run) {
  const std::size_t at = dry_run.find("together");
  REQUIRE(at != std::string::npos);
  return std::stod(dry_run.substr(dry_run.find_first_of("0123456789", at)));
}

}  // namespace

TEST_CASE("Qwen3-0.6B's shape: loads, generates and takes a GRPO step within the dry run's memory") {
  if (std::getenv("QRL_LONG_TESTS") == nullptr) return test::skip("14 GiB of memory: scripts/test --long");
  const auto shared = test::shared_data();
  if (!shared) return test::skip("the shared data is missing: Qwen3's tokenizer, GSM8K");
  const test::TempDir dir;
  const fs::path model = dir / "model";
  {
    const model::ModelConfig config = model::read_config(QRL_SOURCE_DIR "/recipes/models/qwen3-0.6b/config.json");
    const model::Weights weights = model::read_weights(config, model::new_weights(config, 0));
    model::save_hf(model, config, model::views(weights));
  }
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
    fs::copy_file(*shared / "tokenizer" / "qwen3" / name, model / name);

  // 8 prompts of up to 128 tokens, 8 responses of 256 each. Random weights give no right answer, so all advantages are
  // 0: only the entropy term gives the step a gradient.
  const std::string recipe =
      QRL_SOURCE_DIR
      "/recipes/math/gsm8k_qwen3_0.6b.yaml"
      " --set data.max_prompt_length=128 --set data.max_response_length=256"
      " --set data.train_batch_size=8 --set actor.mini_batch_size=8 --set rollout.max_num_seqs=64"
      " --set algorithm.entropy_coef=0.001 --set trainer.total_training_steps=1"
      " --set trainer.save_freq=0 --set eval.freq=0 --set data.val_files=[]"
      " --set model.path=" +
      model.string() + " --set data.train_files=[" + (*shared / "datasets" / "gsm8k_test.jsonl").string() +
      "] --set trainer.default_local_dir=" + (dir / "run").string();
  const double predicted = predicted_gib(output_of(test::kProgram + recipe + " --dry-run"));
  // Allows for the model in int8 and, briefly, its fp32 embedding, but not for an fp32 copy of the model (2.2 GiB).
  CHECK_FALSE(output_of("ulimit -v 3000000; " + test::kProgram + "generate " + recipe +
                        " --set data.max_response_length=8 --set rollout.max_num_seqs=1 --prompt 'What is 2 + 2?'")
                  .empty());
  output_of(test::kProgram + recipe);
  std::ifstream rows(dir / "run" / "metrics.jsonl");
  const nlohmann::json row = nlohmann::json::parse(rows);
  CAPTURE(row.dump());
  CHECK(row.at("response_length/mean") > 0);
  CHECK(row.at("actor/grad_norm") > 0);
  const double measured = row.at("perf/peak_memory_gib");
  CHECK(measured <= 16);
  CHECK(test::close(predicted, measured, 0, 0.15));
}
