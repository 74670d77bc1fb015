// Tests that the command line refuses invalid arguments by name, with exit code 2 and without side effects.
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/text.h"
#include "data/parquet.h"
#include "data/tokenizer.h"
#include "support/catch.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

/// Runs the program, which must exit with 2 and one line that contains `part`.
void command_refuses(const std::string& arguments, const std::string& part) {
  const test::Outcome outcome = test::run_command(test::kProgram + arguments);
  INFO(arguments << "\n" << outcome.output);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.output.find(part) != std::string::npos);
  CHECK(outcome.output.find(".tmp-") == std::string::npos);
}

}  // namespace

TEST_CASE("commands: an unknown command gets the nearest name, or the list") {
  command_refuses("evel " + test::kTiny,
                  "expected a recipe file, or one of sft, eval, generate, dump, export, import, profile, data, check, "
                  "judge, tokenize, compare, port, report, watch, got "
                  "\"evel\"; did you mean eval?");
  command_refuses("--dry-run nothing.yaml", "got no such file: \"nothing.yaml\"");
  command_refuses(
      "check recipie x",
      "qrl-train check: expected one of safetensors, config, index, generation, tokenizer, chat, recipe, gpu, reward, "
      "env, gap, csv, jsonl, got \"recipie\"; did you mean recipe?");
  command_refuses("check yaml x",
                  "expected one of safetensors, config, index, generation, tokenizer, chat, recipe, gpu, reward, env, "
                  "gap, csv, jsonl, "
                  "got \"yaml\"\n");
  command_refuses("data chess --out x",
                  "qrl-train data: expected one of countdown, sudoku, arithmetic, sums, got \"chess\"\n");
}

TEST_CASE("data command: writes only new or regular files") {
  const test::TempDir dir;
  REQUIRE(mkfifo((dir / "pipe").c_str(), 0600) == 0);
  const std::string data = "data countdown --size 3 --out ";
  command_refuses(data + (dir / "pipe").string(),
                  (dir / "pipe").string() + ": expected a new or regular file to write");
  CHECK(fs::is_fifo(fs::symlink_status(dir / "pipe")));
  command_refuses(data + (dir / "none/x").string(),
                  (dir / "none/x").string() + ": expected a file in an existing folder");
  command_refuses(data + dir.path().string(), dir.path().string() + ": expected a file to write, got a folder");
  command_refuses(data + "''", "--out");
  for (const char* seed : {"-1", "1.5", "0x10", "010", "18446744073709551616"})
    command_refuses(data + (dir / "x").string() + " --seed " + seed, "expected an integer from 0 to 2^64-1");
  CHECK_FALSE(fs::exists(dir / "x"));
  CHECK(test::run_command(test::kProgram + data + (dir / "x").string() + " --seed 18446744073709551615").exit_code ==
        0);
}

TEST_CASE("export: outputs are checked before the model is read, and nothing is overwritten") {
  const test::TempDir dir;
  std::ofstream(dir / "file") << "mine";
  std::ofstream(dir / "empty") << "";
  const std::string out = "export " QRL_SOURCE_DIR "/recipes/models/quickstart --out " + (dir / "hf").string();
  for (const char* name : {"file", "empty"})
    command_refuses("export x --out " + (dir / name).string(),
                    (dir / name).string() + ": expected a new or empty folder, got a file");
  command_refuses(out + " --logits " + (dir / "none/l").string(),
                  (dir / "none/l").string() + ": expected a file in an existing folder");
  command_refuses(out + " --logits " + (dir / "file").string(),
                  (dir / "file").string() + ": expected the name of a new file");
  CHECK(test::read_file(dir / "file") == "mine");
  CHECK_FALSE(fs::exists(dir / "hf"));
}

TEST_CASE("generate: prints whole UTF-8 characters, for any sampled bytes") {
  const test::Outcome outcome =
      test::run_command(test::kProgram + "generate " + test::kTiny + " --prompt '1 2 3 = 6' --n 8");
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.output.find("\xef\xbf\xbd") != std::string::npos);  // some bytes were not UTF-8
  CHECK(base::is_utf8(outcome.output));
}

TEST_CASE("options: refused if without effect or empty") {
  command_refuses(test::kTiny + " --resume ''", "--resume");
  command_refuses("eval " + test::kTiny + " --checkpoint ''", "--checkpoint");
  command_refuses(
      "eval " + test::kTiny + " --set data.max_response_length=100000 --set actor.max_tokens_per_micro_batch=200000",
      "data.max_prompt_length + max_response_length: expected at most the model's max_position_embeddings = ");
}

TEST_CASE("KV cache: one too large for any machine is refused with the recipe's keys") {
  command_refuses(
      "generate " + test::kTiny + " --prompt '1 2 3 = 6' --set rollout.kv_pages=16777216 --set rollout.page_size=4096",
      "rollout.kv_pages: expected a KV cache within the machine's");
}

TEST_CASE("out of memory: reported with the recipe's settings") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return test::skip("a sanitizer needs all addresses");
#endif
  // A limit on address space simulates a small machine: enough to read the recipe, not for its KV cache.
  const test::Outcome outcome =
      test::run_command("ulimit -v 1200000; " + test::kProgram + "eval " + test::kTiny +
                        " --set trainer.threads=2 --set rollout.kv_pages=5000 --set rollout.page_size=4096");
  INFO(outcome.output);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.output.find("memory: expected enough for the model and rollout.max_num_seqs 256, rollout.kv_pages 5000 "
                            "of 4096 tokens") != std::string::npos);
}

TEST_CASE("tokenize: ids and back, rows, and text that spells special tokens") {
  const test::TempDir dir;
  data::Tokenizer::byte_level().save(dir.path());  // no config.json beside it
  const auto run = [&](const std::string& text, const std::string& flags) {
    std::ofstream(dir / "in", std::ios::binary) << text;
    const std::string command = test::kProgram + "tokenize " + dir.path().string() + " " + flags + " < ";
    return test::run_command(command + (dir / "in").string());
  };
  CHECK(run("a<answer>", "").output == "97 257\n");
  CHECK(run("a<an", "--plain").output == "97 60 97 110\n");
  CHECK(run("<answer>", "--plain").output == "60 97 110 115 119 101 114 62\n");
  CHECK(run("\xEF\xBB\xBF{\"text\": \"é<answer>\"}\n\n \t\r\n{\"text\": \"\"}\r\n", "--jsonl").output ==
        "{\"ids\": [195, 169, 257]}\n{\"ids\": []}\n");
  CHECK(run("195 169 256\n97", "--decode").output == "é<|endoftext|>a");
  for (const char* bad : {"{\"text\": 5}", "{}", "[]", "{\"text\": \"a\""}) {
    INFO(bad);
    const test::Outcome outcome = run(std::string("{\"text\": \"a\"}\n") + bad, "--jsonl");
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.output.find("standard input:2") != std::string::npos);
  }
  CHECK(run("259", "--decode").exit_code == 2);
  CHECK(run("-1", "--decode").exit_code == 2);
  CHECK(run("", "--decode --jsonl").exit_code == 2);
  command_refuses("tokenize " + (dir / "none").string(), "tokenizer.json: expected a readable file");
  fs::create_directory(dir / "slow");
  std::ofstream(dir / "slow/vocab.json") << "{}";
  command_refuses("tokenize " + (dir / "slow").string(), "no such file, but vocab.json");
  command_refuses(test::kTiny + " --dry-run --set model.init.config=null --set model.path=Org/Name",
                  "does not download models");
}

TEST_CASE("check jsonl, csv: read rows by the keys of a recipe") {
  const test::TempDir dir;
  std::ofstream(dir / "a.jsonl") << R"({"q": {"text": "abc"}, "gold": 7, "from": "x", "level": 3})"
                                    "\n"
                                    R"({"q": {"text": "abcde"}, "gold": 8, "from": "y", "level": 1})"
                                    "\n";
  std::ofstream(dir / "a.csv") << "q,gold,level\nabc,7,3\nabcde,8,1\n";
  const auto check = [&](const std::string& arguments) {
    return test::run_command("cd " + dir.path().string() + " && " + test::kProgram + "check " + arguments);
  };
  CHECK(check("jsonl a.jsonl").exit_code == 2);
  CHECK(test::says(check("jsonl a.jsonl --prompt-key q.text --ground-truth-key gold"),
                   "2 rows, prompts of 3 to 5 bytes, data sources: \"a\" (2)"));
  CHECK(test::says(
      check("jsonl a.jsonl --prompt-key q.text --ground-truth-key gold --data-source-key from --filter 'level >= 2' "
            "--filter 'from == x'"),
      "1 row, prompts of 3 to 3 bytes, data sources: \"x\" (1)"));
  CHECK(test::says(check("jsonl a.jsonl --prompt-key q --ground-truth-key gold"),
                   "a.jsonl:1: expected `q` to be a string or a list of messages, got object"));
  CHECK(test::says(check("csv a.csv"),
                   "a.csv:2: expected a field `prompt` or `question`, got a row with the fields \"gold\", \"level\", "
                   "\"q\"; set --prompt-key to the field's name"));
  CHECK(test::says(check("csv a.csv --prompt-key q"), "no ground truths: for reward.verifier command alone"));
  CHECK(test::says(check("csv a.csv --filter 'level >> 3'"),
                   "--filter: expected FIELD <, <=, > or >= NUMBER, got \"level >> 3\""));
  CHECK(check("csv a.csv").exit_code == 2);
  std::ofstream(dir / "b.csv") << "prompt,ground_truth\nabc,7\nabcde,8\n";
  CHECK(test::says(check("csv b.csv"), "2 records of"));
  CHECK(test::says(check("csv a.csv --prompt-key q --ground-truth-key gold --filter 'level < 2'"),
                   "; 1 row, prompts of 5"));
  CHECK(test::says(check("csv a.csv --prompt-key none --ground-truth-key gold"), "a field `none`"));
  CHECK(check("jsonl a.jsonl --prompt-key ''").exit_code == 2);
  CHECK(test::says(check("jsonl b.csv"), "2 rows, prompts of 3"));  // like a recipe
  if (!data::can_read_parquet()) return;
  CHECK(
      test::says(check("jsonl " QRL_SOURCE_DIR "/tests/data/golden/parquet/left_out.parquet"), "1 row, prompts of 6"));
}

TEST_CASE("check chat, generation: show how a model's folder formats prompts and ends answers") {
  const test::TempDir dir;
  const auto check = [&](const std::string& arguments) {
    return test::run_command("cd " + dir.path().string() + " && " + test::kProgram + "check " + arguments);
  };
  fs::create_directory(dir / "model");
  data::Tokenizer::byte_level().save(dir / "model");
  CHECK(test::says(check("chat model"), "model: chat template plain: a prompt is only its text"));
  std::ofstream(dir / "model/chat_template.jinja") << "{% for m in messages %}<{{ m['role'] }}>{% endfor %}";
  const test::Outcome unknown = check("chat model");
  CHECK(unknown.exit_code == 2);
  CHECK(test::says(unknown, "it omits the assistant's messages; set data.chat_template"));
  std::ofstream(dir / "model/chat_template.jinja")
      << "{% for m in messages %}{{ m.role + ': ' + m.content + '<|endoftext|>' }}{% endfor %}";
  CHECK(test::says(check("chat model"), R"(prompt          "user: «PROMPT»<|endoftext|>")"));
  CHECK(test::says(check("chat model"), "end of a turn   <|endoftext|> (token 256)"));

  const auto generation = [&](const char* text) {
    std::ofstream(dir / "model/generation_config.json") << text;
    return check("generation model/generation_config.json");
  };
  CHECK(test::says(generation(R"({"eos_token_id": [7, 2], "top_p": 0.9})"),
                   "end with [7,2]; no config.json in its folder"));
  CHECK(test::says(generation(R"({"stop_strings": ["END"]})"), "stop_strings are ignored"));
  CHECK(test::says(generation("{}"), "no end token: those of config.json are used"));
  CHECK_FALSE(test::says(generation(R"({"stop_strings": null})"), "stop_strings"));
  CHECK(generation(R"({"eos_token_id": "a"})").exit_code == 2);
  fs::copy_file(QRL_SOURCE_DIR "/recipes/models/quickstart/config.json", dir / "model/config.json");
  CHECK(test::says(generation(R"({"eos_token_id": 7})"), "end with [7]; other keys are kept"));
  CHECK(generation(R"({"eos_token_id": 4000})").exit_code == 2);
}

TEST_CASE("dry run: names all sources of prompts, and their shares") {
  const test::TempDir dir;
  const auto write = [&](const std::string& name, int count) {
    std::ofstream out(dir / name);
    for (int i = 0; i < count; ++i)
      out << R"({"prompt": "p)" << i << R"(", "ground_truth": "{\"numbers\": [3, 4], \"target\": 7}"})" << '\n';
  };
  write("few.jsonl", 3);
  write("many.jsonl", 90);
  const auto dry_run = [&](const std::string& settings) {
    return test::run_command(test::kProgram + test::kTiny +
                             " --dry-run --set data.train_generator.task=null --set data.train_batch_size=12 " +
                             settings + " --set trainer.default_local_dir=" + (dir / "run").string());
  };
  const std::string few = (dir / "few.jsonl").string(), many = (dir / "many.jsonl").string();
  CHECK(test::says(dry_run("--set data.train_files=[" + few + "," + many + "]"),
                   "93 prompts from few (3), many (90): an epoch is 7.8 steps"));
  CHECK(test::says(dry_run("--set data.train_files=[" + few + "]"), "3 prompts from few: a step uses each 4.0 times"));
  const test::Outcome weighted =
      dry_run("--set data.train_files=[" + few + "," + many + "] --set data.train_weights=[1,3]");
  CHECK(test::says(weighted, "25.0 % of the draws from " + few + ", 3 prompts: an epoch is 1.0 steps"));
  CHECK(test::says(weighted, "75.0 % of the draws from " + many + ", 90 prompts: an epoch is 10.0 steps"));
}

TEST_CASE("dry run: shows the first prompt as the model sees it") {
  const test::TempDir dir;
  const test::Outcome outcome = test::run_command(
      test::kProgram + test::kTiny + " --dry-run --set trainer.default_local_dir=" + (dir / "run").string() +
      " --set 'data.prompt_template=Q {prompt}'");
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.output.find("chat template plain; first prompt: \"Q ") != std::string::npos);
  std::ofstream(dir / "zh.jsonl")
      << R"({"prompt": "小明 $\\nu$?\n\"x\"", "answer": "{\"numbers\":[3,4],\"target\":7}"})"
      << "\n";
  const test::Outcome chinese =
      test::run_command("LC_ALL=C.UTF-8 " + test::kProgram + test::kTiny +
                        " --dry-run --set trainer.default_local_dir=" + (dir / "run").string() +
                        " --set data.train_generator.task=null --set data.train_batch_size=1 " +
                        "--set actor.mini_batch_size=1 --set data.train_files=[" + (dir / "zh.jsonl").string() + "]");
  INFO(chinese.output);
  CHECK(test::says(chinese, R"(first prompt: "小明 $\\nu$?\n\"x\"")"));
  command_refuses(test::kTiny + " --dry-run --set data.chat_template=chatml", R"(an answer ends with "<|im_end|>\n)");
  command_refuses(
      test::kTiny + " --dry-run --set data.chat_template=qwen25",
      "data.chat_template: expected plain, chatml, qwen2.5, qwen3, llama3, llama3.1, auto, or a Jinja file");
}

TEST_CASE("full disk: cut output is an error, for every command") {
  if (!std::filesystem::exists("/dev/full")) return test::skip("no /dev/full here");
  const std::string program = std::string(QRL_BINARY_DIR) + "/qrl-train ",
                    recipe = QRL_SOURCE_DIR "/tests/train/tiny.yaml";
  const test::TempDir dir;
  std::ofstream(dir / "rows.jsonl") << R"({"response":"1","ground_truth":"1"})"
                                    << "\n";
  for (const std::string& command :
       {std::string("--version"), recipe + " --print-config", recipe + " --dry-run",
        "judge --verifier math < " + (dir / "rows.jsonl").string(), "check recipe " + recipe}) {
    const test::Outcome outcome = test::run_command("( " + program + command + " > /dev/full )");
    INFO(command << ": " << outcome.output);
    CHECK(outcome.exit_code == 1);
    CHECK(outcome.output.find("standard output") != std::string::npos);
  }
}

TEST_CASE("judge: a number beyond doubles ends it with its line, an integer beyond 64 bits is a gold answer") {
  const test::TempDir dir;
  const auto judge = [&](const std::string& verifier, const std::string& rows) {
    std::ofstream(dir / "rows.jsonl") << rows << "\n";
    return test::run_command(test::kProgram + "judge --verifier " + verifier + " < " + (dir / "rows.jsonl").string());
  };
  for (const auto& [verifier, row] : {std::pair{"math", R"({"response":"\\boxed{1}","ground_truth":1e400})"},
                                      {"math", R"({"response":"\\boxed{1}","ground_truth":"1","note":-1e999})"},
                                      {"countdown", R"({"response":"1+2","numbers":[1,2e400],"target":3})"},
                                      {"countdown", R"({"response":"1+2","numbers":[1,2],"target":1e400})"}}) {
    const test::Outcome outcome = judge(verifier, R"({"response":"7","ground_truth":"7"})"
                                                  "\n" +
                                                      std::string(row));
    INFO(row << "\n" << outcome.output);
    CHECK(outcome.exit_code == 2);
    CHECK(test::says(outcome, "standard input:2: expected JSON numbers within the range of a double"));
    CHECK(test::says(outcome, "\"score\":"));  // of the row before it
  }
  for (const auto& [verifier, row] :
       {std::pair{"math", R"({"response":"\\boxed{99999999999999999999}","ground_truth":99999999999999999999})"},
        {"countdown", R"({"response":"<answer>1+2</answer>","numbers":[1,99999999999999999999],"target":3})"},
        {"countdown", R"({"response":"<answer>1+2</answer>","numbers":[1,2],"target":-99999999999999999999})"},
        {"countdown", R"({"response":"<answer>1+2</answer>","numbers":[1,2],"target":1e300})"},
        {"sudoku", R"({"response":"1","puzzle":99999999999999999999})"}}) {
    const test::Outcome outcome = judge(verifier, row);
    INFO(row << "\n" << outcome.output);
    CHECK(outcome.exit_code == 0);
    CHECK(test::says(outcome, R"({"score":0,"reason":"gold")"));
  }
}

TEST_CASE("export: reports how much of the update bf16 rounds away, and warns if little remains") {
  const test::TempDir dir;
  const fs::path base = dir / "base";
  fs::copy(test::finished_run() / "checkpoints/sft_12", base);
  const auto train = [&](const std::string& name, const std::string& lr) {
    REQUIRE(test::run_command(test::tiny_command(dir / name,
                                                 "--set model.init.config=null --set sft.steps=0 --set eval.freq=0 "
                                                 "--set trainer.total_training_steps=1 --set model.path=" +
                                                     base.string() + " --set optim.lr=" + lr))
                .exit_code == 0);
  };
  int number = 0;
  const auto exported = [&](const std::string& name, const std::string& dtype) {
    const test::Outcome outcome =
        test::run_command(test::kProgram + "export " + (dir / name / "checkpoints/step_1").string() + " --dtype " +
                          dtype + " --out " + (dir / std::to_string(++number)).string());
    CHECK(outcome.exit_code == 0);
    return outcome;
  };
  train("large", "1e-2");
  train("small", "1e-6");
  const std::string said = "the update from model.path, rounded to bfloat16: relative error ";
  const test::Outcome large = exported("large", "bfloat16");
  CHECK(test::says(large, said + "0.0"));
  CHECK_FALSE(test::says(large, "warning"));
  const test::Outcome small = exported("small", "bfloat16");
  CHECK(test::says(small, said));
  CHECK(test::says(small, "warning: rounding to bfloat16 undoes most of the update"));
  CHECK_FALSE(test::says(exported("small", "float32"), said));
  fs::remove(base / "model.safetensors");
  CHECK_FALSE(test::says(exported("small", "bfloat16"), said));
}

TEST_CASE("failed export: leaves an empty folder, so that the same command works once space is free") {
  const test::TempDir dir;
  const std::string command = std::string(QRL_BINARY_DIR) + "/qrl-train export " +
                              (test::finished_run() / "checkpoints/step_4").string() + " --out " +
                              (dir / "model").string();
  const test::Outcome full = test::run_command("trap '' XFSZ; ulimit -f 1; exec " + command);
  INFO(full.output);
  CHECK(full.exit_code == 1);
  CHECK(std::filesystem::is_empty(dir / "model"));
  CHECK(test::run_command(command).exit_code == 0);
}

TEST_CASE("checkpoint arguments: a run's folder means its newest sound checkpoint") {
  const test::TempDir dir;
  fs::copy(test::finished_run(), dir / "run", fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  const auto exported = [&](const std::string& from, const std::string& to) {
    const test::Outcome done =
        test::run_command(test::kProgram + "export " + (dir / from).string() + " --out " + (dir / to).string());
    INFO(done.output);
    REQUIRE(done.exit_code == 0);
    return test::read_file(dir / to / "model.safetensors");
  };
  const std::string newest = exported("run/checkpoints/step_4", "named");
  CHECK(exported("run", "newest") == newest);
  fs::resize_file(dir / "run/checkpoints/step_4/state.json", 3);
  CHECK(exported("run", "older") == exported("run/checkpoints/step_3", "older_named"));
  for (const auto& entry : fs::directory_iterator(dir / "run/checkpoints"))
    if (entry.is_directory()) fs::remove(entry.path() / "manifest.json");
  command_refuses("export " + (dir / "run").string() + " --out /tmp/never",
                  "expected a run with a checkpoint, got none");
  command_refuses("eval " QRL_SOURCE_DIR "/tests/train/tiny.yaml --checkpoint " + (dir / "run").string(),
                  "expected a run with a checkpoint, got none");
}

TEST_CASE("recipes: lists those of the program, and each can be planned by name") {
  const test::Outcome list = test::run_command(test::kProgram + "recipes:");
  REQUIRE(list.exit_code == 0);
  CHECK(test::says(list, "\nrecipes:countdown_quickstart"));
  CHECK(test::says(list, "  A small model learns countdown on two CPU cores: "));
  CHECK(test::says(list, "\nrecipes:papers/qurl_deepscaler "));
  std::istringstream lines(list.output);
  int num_recipes = 0;
  for (std::string line; std::getline(lines, line); ++num_recipes) {
    INFO(line);
    CHECK(line.starts_with("recipes:"));
    CHECK(line.find("  ") != std::string::npos);  // a sentence follows
  }
  CHECK(num_recipes > 60);
  command_refuses("recipes:none_like_this_at_all", "qrl-train recipes: lists them");
}

TEST_CASE("file names: a line end in one does not break an error into two lines") {
  const test::TempDir dir;
  const std::string file = "'" + (dir / "a\nb").string();
  for (const std::string& command :
       {"check csv " + file + ".csv'", "check config " + file + "'", file + ".yaml' --dry-run"}) {
    const test::Outcome outcome = test::run_command(test::kProgram + command);
    INFO(outcome.output);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.output.find("a\\nb") != std::string::npos);
    CHECK(std::ranges::count(outcome.output, '\n') == 1);
  }
}

TEST_CASE("torchrun, accelerate: a run under them is refused unless --ranks is given") {
  const test::TempDir dir;
  const std::string launched = "env WORLD_SIZE=2 RANK=0 LOCAL_RANK=0 ";
  const test::Outcome refused = test::run_command(launched + test::tiny_command(dir / "run"));
  CHECK(refused.exit_code == 2);
  CHECK(test::says(refused, "torchrun and accelerate start N runs of one process: use --ranks N"));
  CHECK_FALSE(fs::exists(dir / "run"));
  CHECK(test::run_command(launched + test::tiny_command(dir / "run", "--dry-run")).exit_code == 0);
  CHECK(test::run_command(launched + test::tiny_command(dir / "run", "--ranks 1")).exit_code == 0);
}

TEST_CASE("check tokenizer: refuses a folder without an end token as a run does") {
  const test::TempDir dir;
  fs::create_directory(dir / "model");
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
    fs::copy_file(test::finished_run() / "checkpoints/step_4" / name, dir / "model" / name);
  CHECK(test::run_command(test::kProgram + "check tokenizer " + (dir / "model").string()).exit_code == 0);
  fs::remove(dir / "model/tokenizer_config.json");
  command_refuses("check tokenizer " + (dir / "model").string(),
                  "expected a tokenizer_config.json that names an `eos_token`");
}

TEST_CASE("overflowing logits: the model is named as the cause") {
  const test::TempDir dir;
  const fs::path model = test::copy_of_finished_run(dir / "run") / "checkpoints/step_4";
  REQUIRE(
      test::run_command(test::kProgram + "export " + model.string() + " --dtype float32 --out " + (dir / "hf").string())
          .exit_code == 0);
  const fs::path file = dir / "hf/model.safetensors";
  std::string bytes = test::read_file(file);
  for (std::size_t at = bytes.size() - 4096; at + 4 <= bytes.size(); at += 4)
    bytes.replace(at, 4, "\xff\xff\x7f\x7f");  // 3.4e38
  std::ofstream(file, std::ios::binary) << bytes;
  command_refuses("generate " + (dir / "hf").string() + " --prompt x --temperature 1",
                  "the model's logits: expected finite numbers or -inf, one of them finite, got ");
}

TEST_CASE("run folders: one without a checkpoint is refused as such") {
  const test::TempDir dir;
  std::ofstream(dir / "config.yaml") << "recipe of a run\n";
  for (const std::string command : {"export ", "generate "})
    command_refuses(command + (dir / "").string() + (command == "export " ? " --out x" : " --prompt x"),
                    "expected a run with a checkpoint, got none that is sound in ");
}

TEST_CASE("checkpoint folders: no command writes into one") {
  const test::TempDir dir;
  fs::copy(test::finished_run(), dir / "run", fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  const std::string checkpoint = (dir / "run/checkpoints/step_4").string(), inside = checkpoint + "/x/y";
  fs::create_directory_symlink(checkpoint, dir / "link");
  const std::string refused = ": expected a place outside checkpoints, got a path inside the checkpoint " + checkpoint;
  command_refuses("export " + checkpoint + " --out " + inside, inside + refused);
  command_refuses("export " + checkpoint + " --out " + (dir / "link/x").string(), (dir / "link/x").string() + refused);
  command_refuses("data countdown --size 3 --out " + inside, inside + refused);
  command_refuses("report " + (dir / "run").string() + " --out " + inside + ".html", inside + ".html" + refused);
  command_refuses("report " + (dir / "run").string() + " --tensorboard " + inside, inside + refused);
  command_refuses("eval " QRL_SOURCE_DIR "/tests/train/tiny.yaml --out " + inside, inside + refused);
  const std::string run_folder = " --set trainer.default_local_dir=";
  command_refuses(QRL_SOURCE_DIR "/tests/train/tiny.yaml --dry-run" + run_folder + inside, inside + refused);
  command_refuses(QRL_SOURCE_DIR "/tests/train/tiny.yaml" + run_folder + inside, inside + refused);
  for (const std::string place : {"/proc/x", "/sys/x", "/dev/x"})
    command_refuses(QRL_SOURCE_DIR "/tests/train/tiny.yaml --dry-run" + run_folder + place,
                    place + ": expected a place for files, got a path under /proc, /sys or /dev");
  CHECK_FALSE(fs::exists(inside));
}

TEST_CASE("unreadable files: named without waiting") {
  const test::TempDir dir;
  for (const char* name : {"p.csv", "p.jsonl", "p.parquet", "p.jinja"})
    REQUIRE(mkfifo((dir / name).c_str(), 0600) == 0);
  for (const std::string kind : {"csv", "jsonl"}) {
    command_refuses("check " + kind + " " + (dir / "p.csv").string(),
                    (dir / "p.csv").string() + ": expected a CSV file, got not a regular file");
    command_refuses("check " + kind + " /proc/self/mem",
                    "/proc/self/mem: expected a readable file, got Input/output error");
  }
  command_refuses("check reward " QRL_SOURCE_DIR "/tests/train/tiny.yaml --file " + (dir / "p.jsonl").string(),
                  "p.jsonl: expected a JSONL file, got not a regular file");
  std::ofstream(dir / "rows") << R"({"messages":[{"role":"user","content":"x"}]})"
                              << "\n";
  command_refuses("tokenize " + (test::finished_run() / "checkpoints/step_4").string() + " --jsonl --chat-template " +
                      (dir / "p.jinja").string() + " < " + (dir / "rows").string(),
                  "p.jinja: expected a regular file, got a device or pipe");
  fs::create_symlink("/proc/self/mem", dir / "mem.csv");
  command_refuses("check csv " + (dir / "mem.csv").string(),
                  "mem.csv: expected a readable file, got Input/output error");
  command_refuses("judge --verifier math < /dev/null", "standard input: expected one row or more, got none");
}

TEST_CASE("options: stand after their command, and each --set takes one value") {
  const std::string recipe = QRL_SOURCE_DIR "/tests/train/tiny.yaml";
  command_refuses("--dry-run sft " + recipe, "--dry-run before sft");
  command_refuses("--set trainer.seed=7 sft " + recipe, "--set before sft");
  command_refuses(recipe + " data countdown --out x", "RECIPE before data");
  command_refuses(recipe + " --print-config --dry-run", "expected --print-config or --dry-run, got both");
  const test::Outcome set_first =
      test::run_command(QRL_BINARY_DIR "/qrl-train --set optim.lr=1e-4 " + recipe + " --dry-run");
  CHECK(set_first.exit_code == 0);
}

TEST_CASE("dry run: opens the model and finds the layers that stay bf16") {
  const std::string recipe = QRL_SOURCE_DIR "/tests/train/tiny.yaml ";
  command_refuses(recipe + "--dry-run --set quant.rollout.ignore=[down_porj]", "down_porj");
  const test::TempDir dir;
  REQUIRE(test::run_command(QRL_BINARY_DIR "/qrl-train export " +
                            (test::finished_run() / "checkpoints/step_4").string() + " --out " + (dir / "hf").string())
              .exit_code == 0);
  const std::string with_model =
      recipe + "--dry-run --set model.init.config=null --set model.path=" + (dir / "hf").string();
  CHECK(test::run_command(QRL_BINARY_DIR "/qrl-train " + with_model).exit_code == 0);
  std::filesystem::resize_file(dir / "hf/model.safetensors", 5000);
  command_refuses(with_model, "model.safetensors");
}

TEST_CASE("closed standard streams: a run does not write into its own files") {
  const test::TempDir dir;
  CHECK(std::system((test::tiny_command(dir / "run") + " >&- 2>&-").c_str()) == 0);
  CHECK(test::difference(test::finished_run(), dir / "run") == "");
  CHECK(test::read_file(dir / "run/.lock").find("step") == std::string::npos);
  const std::string problems = "data countdown --size 1 --out " + (dir / "x.jsonl").string();
  for (const std::string& command :
       {std::string("--version"), std::string("check recipe " QRL_SOURCE_DIR "/tests/train/tiny.yaml"), problems})
    CHECK(std::system((QRL_BINARY_DIR "/qrl-train " + command + " >&- 2>&-").c_str()) != 0);
}

TEST_CASE("log.txt: has lines from before the run folder existed, progress, and the last error") {
  const test::TempDir dir;
  const test::Outcome outcome =
      test::run_command(test::tiny_command(dir / "run",
                                           "--set data.max_prompt_length=10 --set data.overlong_prompt=filter "
                                           "--set rollout_correction.gap_limit.k3_kl=1e-12 "
                                           "--set rollout_correction.gap_limit.action=stop"));
  INFO(outcome.output);
  CHECK(outcome.exit_code == 3);
  const std::string log = test::read_file(dir / "run/log.txt");
  INFO(log);
  CHECK(log.find("were left out (data.overlong_prompt)") != std::string::npos);
  CHECK(log.find("cold start 12/12") != std::string::npos);
  CHECK(log.find("error: ") != std::string::npos);
}

TEST_CASE("Hub names: every command that takes a folder accepts them") {
  const test::TempDir dir;
  const fs::path repository = dir / "hub/models--Org--Name", snapshot = repository / "snapshots/abc123";
  fs::create_directories(snapshot);
  fs::create_directories(repository / "refs");
  std::ofstream(repository / "refs/main") << "abc123";
  const fs::path checkpoint = test::finished_run() / "checkpoints/step_4", model = dir / "model";
  REQUIRE(test::run_command(test::kProgram + "export " + checkpoint.string() + " --out " + model.string()).exit_code ==
          0);
  for (const std::string& name : test::names_in(model)) fs::create_symlink(model / name, snapshot / name);
  const std::string program = "HF_HUB_CACHE=" + (dir / "hub").string() + " " + test::kProgram;
  const auto run = [&](const std::string& arguments) { return test::run_command(program + arguments); };
  CHECK(test::says(test::run_command("printf a | " + program + "tokenize Org/Name"), "97\n"));
  CHECK(test::says(run("check tokenizer Org/Name"), "byte-level BPE"));
  CHECK(test::says(run("check config Org/Name@main"), "snapshots/abc123/config.json"));
  CHECK(test::says(run("generate Org/Name --prompt hi --max-tokens 2"), "sampled from fp32 weights with "));
  CHECK(run("export Org/Name --out " + (dir / "out").string()).exit_code == 0);
  CHECK(run("dump " + test::kTiny + " --checkpoint Org/Name --prompt '1 2' --out " + (dir / "d").string()).exit_code ==
        0);
  CHECK(test::says(run("generate Org/Other --prompt hi"),
                   "a Hugging Face folder, a GGUF file or a model in the Hub's cache"));
}
