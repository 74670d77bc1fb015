// Tests generate: how it takes prompts from a user and prints a model's responses.
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/catch.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

const std::string kGenerate = QRL_BINARY_DIR "/qrl-train generate ";
const std::string kAsked = " --prompt '1 2 3 = 6\n' ";

std::string checkpoint() { return (test::finished_run() / "checkpoints/step_4").string(); }

/// Returns the standard output of `generate`, which must succeed.
std::string said(const std::string& arguments, const std::string& before = "") {
  const test::Outcome outcome = test::run_command("( " + before + kGenerate + arguments + " 2>/dev/null )");
  INFO(arguments << "\n" << outcome.output);
  REQUIRE(outcome.exit_code == 0);
  return outcome.output;
}

std::vector<nlohmann::json> rows(const std::string& arguments, const std::string& before = "") {
  std::istringstream lines(said(arguments + " --json", before));
  std::vector<nlohmann::json> all;
  for (std::string line; std::getline(lines, line);) all.push_back(nlohmann::json::parse(line));
  return all;
}

/// Checks for exit code 2 and one line that contains `part`.
void generate_refuses(const std::string& arguments, const std::string& part, const std::string& before = "") {
  const test::Outcome outcome = test::run_command("( " + before + kGenerate + arguments + " )");
  INFO(arguments << "\n" << outcome.output);
  CHECK(outcome.exit_code == 2);
  CHECK(test::says(outcome, part));
  CHECK(std::count(outcome.output.begin(), outcome.output.end(), '\n') == 1);
}

/// Exports the checkpoint with the given options of `export`, by default in fp32, and returns the folder.
std::string exported(const fs::path& to, const std::string& options = "") {
  REQUIRE(test::run_command(QRL_BINARY_DIR "/qrl-train export " + checkpoint() + " --out " + to.string() + options)
              .exit_code == 0);
  return to.string();
}

}  // namespace

TEST_CASE("generate: samples a checkpoint by its own recipe") {
  const std::string many = kAsked + "--n 8";
  const auto own = rows(checkpoint() + many);
  CHECK(own == rows(test::kTiny + " --checkpoint " + checkpoint() + many));
  CHECK(own != rows(checkpoint() + many + " --set quant.rollout.weights=fp32"));
  CHECK(own != rows(checkpoint() + many + " --set 'data.prompt_template=Q {prompt}'"));
  CHECK(own == rows(test::finished_run().string() + many));  // the newest checkpoint is this one
  generate_refuses(checkpoint() + " --checkpoint x" + kAsked,
                   "--checkpoint: expected a recipe file as MODEL, got the folder");
  generate_refuses("Org/Name" + kAsked,
                   "Org/Name: expected a recipe file, a checkpoint, a Hugging Face folder, a GGUF file or a model in "
                   "the Hub's cache, got "
                   "no such file or folder");
}

TEST_CASE("generate: settings of the learner do not limit sampling") {
  const test::TempDir dir;
  REQUIRE(test::run_command(test::tiny_command(dir / "run", "--set rollout.kv_pages=24 --set quant.uaq_scale=1.5"))
              .exit_code == 0);
  const std::string from = (dir / "run/checkpoints/step_4").string();
  CHECK(rows(from + kAsked + "--n 3 --max-tokens 450").size() == 3);  // a micro-batch has 256 tokens, the pages 384
  CHECK(rows(from + kAsked + "--set quant.rollout.weights=bf16").size() == 1);  // this format has no update-aware scale
}

TEST_CASE("generate: a Hugging Face folder needs no recipe, and is computed in its own dtype") {
  const test::TempDir dir;
  const std::string many = kAsked + "--n 8 --max-tokens 24";
  const auto in = [&](const std::string& weights) {
    return rows(checkpoint() + many + " --set quant.rollout.weights=" + weights);
  };
  const std::string fp32 = exported(dir / "fp32"), bf16 = exported(dir / "bf16", " --dtype bfloat16");
  CHECK(in("fp32") != in("int8"));
  CHECK(rows(fp32 + many) == in("fp32"));
  CHECK(rows(bf16 + many) == rows(bf16 + many + " --set quant.rollout.weights=bf16"));
  CHECK(rows(bf16 + many) != rows(bf16 + many + " --set quant.rollout.weights=fp32 --set quant.rollout.kv_cache=fp32"));
  CHECK(rows(fp32 + many + " --set quant.rollout.weights=int8") == in("int8"));
  const auto longest = rows(fp32 + kAsked + " --n 16");
  CHECK(std::any_of(longest.begin(), longest.end(), [](const auto& row) { return row["stop"] == "length"; }));
  for (const nlohmann::json& row : longest) CHECK((row["stop"] == "eos" || row["response_tokens"] == 256));
}

TEST_CASE("generate: prints one response bare, and several each under a title line") {
  const std::string greedy = checkpoint() + kAsked + "--temperature 0 ";
  const auto all = rows(greedy + "--n 2 --max-tokens 5 --prompt 'other\n'");
  REQUIRE(all.size() == 4);
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(all[i]["prompt"] == (i < 2 ? "1 2 3 = 6\n" : "other\n"));
    CHECK(all[i]["sample"] == i % 2);
    CHECK(all[i]["stop"] == "length");
    CHECK(all[i]["response_tokens"] == 5);
  }
  const std::string first = all[0]["response"], second = all[2]["response"];
  CHECK(said(greedy + "--max-tokens 5") == first + "\n");
  const test::Outcome both = test::run_command(kGenerate + greedy + "--max-tokens 5");
  CHECK(test::says(both, "stop (length), 5 tokens\n"));
  CHECK(said(greedy + "--n 2 --max-tokens 5 --prompt 'other\n'") ==
        "--- prompt 1 sample 1/2: stop (length), 5 tokens\n" + first +
            "\n--- prompt 1 sample 2/2: stop (length), 5 tokens\n" + first +
            "\n--- prompt 2 sample 1/2: stop (length), 5 tokens\n" + second +
            "\n--- prompt 2 sample 2/2: stop (length), 5 tokens\n" + second + "\n");
  CHECK(said(greedy + "--n 2 --max-tokens 1").find("1/2: stop (length), 1 token\n") != std::string::npos);
}

TEST_CASE("generate: prompts from arguments, a data file or standard input") {
  const test::TempDir dir;
  const std::string five = " --max-tokens 5 ";
  const auto texts = [&](const std::string& arguments, const std::string& before = "") {
    std::vector<std::string> prompts;
    for (const nlohmann::json& row : rows(checkpoint() + five + arguments, before)) prompts.push_back(row["prompt"]);
    return prompts;
  };
  using Texts = std::vector<std::string>;
  CHECK(texts("--prompt '[1, 2]' --prompt ' b\n'") == Texts{"[1, 2]", " b\n"});
  CHECK(texts("-", "printf 'a\\nb\\n' | ") == Texts{"a\nb\n"});  // including its last line break
  std::ofstream(dir / "rows.jsonl") << R"({"prompt": "a"})"
                                    << "\n\n"
                                    << R"({"question": "b\n", "answer": null})"
                                    << "\n";
  CHECK(texts("--file " + (dir / "rows.jsonl").string()) == Texts{"a", "b\n"});
  std::ofstream(dir / "rows.csv") << "q,answer\nc,1\n";
  const std::string csv = "--file " + (dir / "rows.csv").string();
  CHECK(texts(csv + " --set data.prompt_key=q") == Texts{"c"});
  generate_refuses(checkpoint() + " " + csv, "rows.csv:2: expected a field `prompt` or `question`");
  std::ofstream(dir / "system.jsonl")
      << R"({"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]})";
  generate_refuses(checkpoint() + " --file " + (dir / "system.jsonl").string(),
                   "a chat template for a prompt with a system");

  const std::string one = "expected one of --prompt TEXT, --file FILE and - (standard input), got ";
  generate_refuses(checkpoint(), one + "none");
  generate_refuses(checkpoint() + " - --prompt a", one + "2", "echo a | ");
  generate_refuses(checkpoint() + " --prompt a " + csv, one + "2");
  generate_refuses(checkpoint() + " hello", "got \"hello\"; give a prompt with --prompt TEXT");
  generate_refuses(checkpoint() + " --prompt -",
                   "--prompt: expected prompt text, got -; for standard input, omit --prompt");
  generate_refuses(checkpoint() + " --prompt a --prompt ''",
                   "--prompt 2: expected a non-empty prompt, got an empty string");
  generate_refuses(checkpoint() + " -", "standard input: expected a non-empty prompt, got an empty string",
                   "printf '' | ");
}

TEST_CASE("generate: invalid UTF-8 is refused at its place") {
  generate_refuses(checkpoint() + " --prompt a --prompt \"$(printf '\\377\\376 x')\"",
                   "--prompt 2: expected UTF-8 text, got \"\\xff\\xfe x\"");
  generate_refuses(checkpoint() + " -", "standard input: expected UTF-8 text", "printf 'a\\300' | ");
}

TEST_CASE("generate: options set the recipe's keys, and an equal seed gives equal text") {
  const std::string from = checkpoint() + kAsked + "--n 6 ";
  const auto usual = rows(from);
  CHECK(usual == rows(from));
  CHECK(usual != rows(from + "--seed 1"));
  CHECK(rows(from + "--seed 1") == rows(from + "--set trainer.seed=1"));
  const auto greedy = rows(from + "--temperature 0");
  CHECK(greedy != usual);
  CHECK(greedy == rows(from + "--top-k 1"));
  CHECK(greedy == rows(from + "--top-p 1e-6"));
  CHECK(rows(from + "--set eval.temperature=0") == greedy);
  for (const nlohmann::json& row : rows(from + "--max-tokens 3")) CHECK(row["response_tokens"] <= 3);
  generate_refuses(from + "--temperature=-1", "qrl-train generate: --temperature: expected float");
}

TEST_CASE("generate: a prompt is limited by the model's positions, and by no training key") {
  const std::string prompt(200, '7');
  CHECK(rows(test::kTiny + " --max-tokens 312 --prompt " + prompt).size() == 1);  // of 24 tokens and 256 a micro-batch
  const std::string bound = "expected prompt and response within the model's max_position_embeddings = 512, got ";
  generate_refuses(test::kTiny + " --prompt a --prompt " + prompt + " --max-tokens 313",
                   "--prompt 2: " + bound +
                       "200 prompt tokens (template included) and up to 313 response tokens; shorten the "
                       "prompt, or lower --max-tokens to 312");
  generate_refuses(
      checkpoint() + " --prompt " + std::string(15000, '7'),
      bound + "15000 prompt tokens (template included) and up to 24 response tokens; shorten the prompt\n");
}

TEST_CASE("generate: the KV cache is as large as the request") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return test::skip("a sanitizer needs all addresses");
#endif
  const std::string wide = " --set quant.rollout.weights=fp32 --set rollout.max_num_seqs=65536 --max-tokens 400 ";
  const std::string little = "ulimit -v 1200000; ";  // simulates a small machine
  CHECK(rows(test::kTiny + wide + kAsked + "--set trainer.threads=2 --n 2", little).size() == 2);
  generate_refuses(
      test::kTiny + kAsked + "--set trainer.threads=2 --set rollout.kv_pages=5000 --set rollout.page_size=4096",
      "memory: expected enough for the model and the samples generated at once (--n, --max-tokens, "
      "rollout.max_num_seqs, "
      "rollout.kv_pages), got no memory left",
      little);
}

TEST_CASE("generate: a prompt without the task's final line break is pointed out, once") {
  const auto hints = [](const std::string& arguments) {
    const std::string output = test::run_command(kGenerate + arguments + " --max-tokens 2").output;
    const std::size_t at = output.find("hint: ");
    if (at == std::string::npos) return std::string();
    CHECK(output.find("hint: ", at + 1) == std::string::npos);
    return output.substr(at, output.find('\n', at) - at);
  };
  CHECK(hints(checkpoint() + " --prompt 'a\n' --prompt b --prompt c") ==
        "hint: prompts of the recipe's task countdown end with a newline, but --prompt 2 does not (bash: --prompt "
        "$'…\\n')");
  CHECK(hints(checkpoint() + " --prompt 'a\n'") == "");
  const test::TempDir dir;
  CHECK(hints(exported(dir / "hf") + " --prompt a") == "");  // the folder does not record its training
}

TEST_CASE("generate: fp8 KV requires the run's prompts, and the error names another format") {
  const test::TempDir dir;
  const std::string fp8 = " --set quant.rollout.kv_cache=fp8_e4m3 ";
  const std::string hf = exported(dir / "hf"), few = kAsked + "--max-tokens 4";
  generate_refuses(
      hf + few + fp8,
      "quant.rollout.kv_cache fp8_e4m3: expected training prompts for calibration, got no training data in the recipe; "
      "add --set quant.rollout.kv_cache=bf16");
  const std::string gone = "--set data.train_generator.task=null --set data.train_files=[/none/a.jsonl]";
  generate_refuses(checkpoint() + few + fp8 + gone, "got no file /none/a.jsonl; add --set quant.rollout.kv_cache=bf16");
  generate_refuses(
      hf + few + " --set quant.rollout.weights=int8 --set quant.rollout.profile=auto",
      "quant.rollout.profile: expected training prompts for calibration, got no training data in the recipe");
  CHECK(rows(checkpoint() + few + fp8).size() == 1);
  CHECK(rows(checkpoint() + few + " --set quant.rollout.kv_cache=bf16 " + gone).size() == 1);
  // Scales computed once are in the checkpoint.
  const std::string once = fp8 + "--set quant.kv_calibration.when=once ";
  REQUIRE(test::run_command(test::tiny_command(dir / "run", once + "--set sft.steps=0")).exit_code == 0);
  CHECK(rows((dir / "run/checkpoints/step_4").string() + few + " " + gone).size() == 1);
}

TEST_CASE("generate: a checkpoint's profile needs neither its file nor data") {
  const test::TempDir dir;
  const std::string made = (dir / "made.safetensors").string(), profile = " --set quant.rollout.profile=";
  REQUIRE(test::run_command(QRL_BINARY_DIR "/qrl-train profile " + test::kTiny + " --set sft.steps=0 --out " + made)
              .exit_code == 0);
  REQUIRE(test::run_command(test::tiny_command(dir / "run", "--set sft.steps=0" + profile + made)).exit_code == 0);
  fs::remove(made);
  const std::string from = (dir / "run/checkpoints/step_4").string() + kAsked;
  CHECK(rows(from).size() == 1);
  generate_refuses(from + profile + made, "expected auto, or a file that qrl-train profile made");
}
