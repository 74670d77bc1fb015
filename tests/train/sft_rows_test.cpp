// Tests the cold start from files: the same bits as from the generator that wrote them, and the learned part of a row.
// Also tests order, epochs, resume, and errors that name the row.
#include "train/prompts/sft_rows.h"

#include <algorithm>
#include <fstream>
#include <set>

#include "support/refusal.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;
using test::refusal_of;
using test::says;

namespace {

constexpr const char* kDemonstrations = "demonstrations: {task: countdown, max_number: 9, max_target: 30}";
const std::string kColdStartAlone = " --set trainer.total_training_steps=0 --set eval.before_train=false";

/// Returns the tiny recipe with `sft` instead of its demonstrations.
fs::path recipe_with(const test::TempDir& dir, const std::string& sft) {
  test::write_recipe(dir / "files.yaml", {{kDemonstrations, sft}});
  return dir / "files.yaml";
}

std::string write(const fs::path& file, const std::string& text) {
  std::ofstream(file) << text;
  return file.string();
}

test::Outcome run_recipe(const fs::path& recipe, const fs::path& run, const std::string& more = "") {
  return test::run_command(test::kProgram + recipe.string() + " --set trainer.default_local_dir=" + run.string() + " " +
                           more);
}

std::string file_bytes(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool same_checkpoint(const fs::path& a, const fs::path& b) {
  for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
    INFO(a << " " << b << " " << file);
    CHECK(fs::exists(a / file));
    if (file_bytes(a / file) != file_bytes(b / file)) return false;
  }
  return true;
}

train::Recipe parsed(const std::string& sft) {
  return train::parse_recipe(train::keys(), "sft: " + sft + "\n", "r.yaml", {}, {}, false).recipe;
}

/// Returns rows of the byte-level tokenizer, whose template is plain.
train::SftRows sft_rows_of(const std::string& text, const std::string& more = "") {
  const test::TempDir dir;
  const std::string file = write(dir / "rows.jsonl", text);
  return train::load_sft_rows(parsed("{train_files: [" + file + "], epochs: 1" + more + "}"),
                              data::Tokenizer::byte_level());
}

std::string error_of(const std::string& text, const std::string& more = "") {
  return refusal_of([&] { (void)sft_rows_of(text, more); });
}

std::string decoded(const std::vector<types::TokenId>& tokens) { return data::Tokenizer::byte_level().decode(tokens); }

}  // namespace

TEST_CASE("exported demonstrations: unshuffled, they train the same bits as their generator") {
  const test::TempDir dir;
  const std::string file = (dir / "demonstrations.jsonl").string();
  const test::Outcome made = test::run_command(
      test::kProgram + "data countdown --demonstrations --max-number 9 --max-target 30 --size 48 --out " + file);
  CHECK(says(made.output, "wrote 48 demonstrations to "));
  REQUIRE(made.exit_code == 0);
  const fs::path recipe = recipe_with(dir, "train_files: [" + file + "]\n  shuffle: false");
  const test::Outcome by_steps = run_recipe(recipe, dir / "steps", kColdStartAlone);
  INFO(by_steps.output);
  REQUIRE(by_steps.exit_code == 0);
  CHECK(same_checkpoint(dir / "steps/checkpoints/sft_12", test::finished_run() / "checkpoints/sft_12"));
  // One epoch of 48 rows is those 12 updates; a run stopped after 5 resumes to the same bits.
  const std::string epoch = " --set sft.steps=0 --set sft.epochs=1";
  REQUIRE(run_recipe(recipe, dir / "epoch", kColdStartAlone + epoch).exit_code == 0);
  CHECK(same_checkpoint(dir / "epoch/checkpoints/sft_12", dir / "steps/checkpoints/sft_12"));
  fs::remove_all(dir / "epoch/checkpoints/sft_12");
  fs::remove_all(dir / "epoch/checkpoints/sft_10");
  const test::Outcome resumed = run_recipe(recipe, dir / "epoch", kColdStartAlone + epoch);
  CHECK(says(resumed.output, "resuming from "));
  CHECK(same_checkpoint(dir / "epoch/checkpoints/sft_12", dir / "steps/checkpoints/sft_12"));
  CHECK(test::stable_rows(dir / "epoch/sft_metrics.jsonl") == test::stable_rows(dir / "steps/sft_metrics.jsonl"));
  // Another order gives another model, and other rows under the same name prevent a resume.
  REQUIRE(run_recipe(recipe, dir / "shuffled", kColdStartAlone + " --set sft.shuffle=true").exit_code == 0);
  CHECK_FALSE(same_checkpoint(dir / "shuffled/checkpoints/sft_12", dir / "steps/checkpoints/sft_12"));
  write(file, "{\"prompt\": \"a\", \"response\": \"b\"}\n");
  const test::Outcome other = run_recipe(recipe, dir / "steps", kColdStartAlone);
  CHECK(other.exit_code == 2);
  CHECK(says(other.output, "sft.train_files [\"" + file + "\"], contents "));
}

TEST_CASE("val/loss: measured after each epoch, at each checkpoint and at the end") {
  const test::TempDir dir;
  std::string rows;
  for (int i = 0; i < 8; ++i) rows += "{\"prompt\": \"" + std::to_string(i) + "\", \"response\": \"yes\"}\n";
  const std::string train_file = write(dir / "train.jsonl", rows), val_file = write(dir / "val.jsonl", rows);
  const fs::path recipe =
      recipe_with(dir, "train_files: [" + train_file + "]\n  val_files: [" + val_file + "]\n  epochs: 3");
  const test::Outcome outcome = run_recipe(recipe, dir / "run", kColdStartAlone + " --set sft.steps=0");
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  const auto metrics = test::stable_rows(dir / "run/sft_metrics.jsonl");
  REQUIRE(metrics.size() == 6);  // 3 epochs of 8 rows, 4 an update; a checkpoint after update 5
  std::set<std::int64_t> measured;
  for (const auto& row : metrics) {
    if (row.contains("val/loss")) measured.insert(row["step"].get<std::int64_t>());
  }
  CHECK(measured == std::set<std::int64_t>{2, 4, 5, 6});
  CHECK(metrics[5]["val/loss"].get<double>() < metrics[1]["val/loss"].get<double>());
  CHECK(fs::exists(dir / "run/checkpoints/sft_6/model.safetensors"));
}

TEST_CASE("supervised row: has its prompt, its response and the end token") {
  const train::SftRows rows = sft_rows_of(
      "{\"prompt\": \"2 + 2\", \"response\": \"<answer>4</answer>\"}\n"
      "{\"question\": \"q\", \"answer\": \"a\"}\n"
      "{\"prompt\": [{\"role\": \"user\", \"content\": \"u\"}], \"completion\": \"c\"}\n"
      "{\"messages\": [{\"role\": \"user\", \"content\": \"u\"}, {\"role\": \"assistant\", \"content\": \"c\"}]}\n"
      "{\"prompt\": \"u\", \"completion\": [{\"role\": \"assistant\", \"content\": \"c\"}]}\n");
  REQUIRE(rows.train.size() == 5);
  CHECK(decoded(rows.train[0].context) == "2 + 2");
  CHECK(rows.train[0].rest == std::vector<types::TokenId>{257, '4', 258, 256});  // its words may be added tokens
  CHECK(rows.train[0].learned == std::vector<std::uint8_t>{1, 1, 1, 1});
  for (const std::size_t i : {2U, 3U, 4U}) {
    CHECK(decoded(rows.train[i].context) == "u");
    CHECK(rows.train[i].rest == std::vector<types::TokenId>{'c', 256});
  }
  CHECK(rows.longest == 9);
  const train::SftRows all = sft_rows_of("{\"prompt\": \"ab\", \"response\": \"c\"}\n", ", loss_on: all");
  CHECK(all.train[0].context == std::vector<types::TokenId>{'a'});
  CHECK(all.train[0].rest == std::vector<types::TokenId>{'b', 'c', 256});
}

TEST_CASE("loss_on: selects the assistant's turns") {
  const test::TempDir dir;
  const std::string file =
      write(dir / "rows.jsonl", R"({"messages": [{"role": "user", "content": "u"}, {"role": "assistant", "content": )"
                                R"("first"}, {"role": "user", "content": "v"}, {"role": "assistant", "content": )"
                                R"("second"}, {"role": "user", "content": "w"}]})"
                                "\n"
                                R"({"prompt": [{"role": "user", "content": "u"}, {"role": "assistant", "content": )"
                                R"("first"}, {"role": "user", "content": "v"}], "completion": [{"role": "assistant", )"
                                R"("content": "second"}]})");
  const auto json = nlohmann::json::parse(file_bytes(test::shipped_data() / "golden/tokenizer_bpe/qwen2.json"));
  nlohmann::json with_control = json;
  for (const char* token : {"<|im_start|>", "<|im_end|>"}) {
    auto entry = with_control["added_tokens"][0];
    entry["content"] = token;
    entry["id"] = with_control["added_tokens"].back()["id"].get<int>() + 1;
    with_control["added_tokens"].push_back(entry);
  }
  const data::Tokenizer tokenizer = data::Tokenizer::parse(with_control.dump(), "<|im_end|>", "t");
  const auto learned_text = [&](const std::string& loss_on, std::size_t row) {
    train::Recipe recipe = parsed("{train_files: [" + file + "], steps: 1, loss_on: " + loss_on + "}");
    recipe.data.chat_template = "chatml";
    const train::SftRow got = train::load_sft_rows(recipe, tokenizer).train.at(row);
    std::string text;
    for (std::size_t i = 0; i < got.rest.size(); ++i)
      text += got.learned[i] != 0 ? tokenizer.bytes_of(got.rest[i], true) : std::string_view("|");
    while (text.find("||") != std::string::npos) text.erase(text.find("||"), 1);
    return text;
  };
  CHECK(learned_text("assistant", 0) == "first<|im_end|>\n|second<|im_end|>\n");
  CHECK(learned_text("last", 0) == "second<|im_end|>\n");
  CHECK(learned_text("all", 0).starts_with("user\nu<|im_end|>\n"));
  CHECK(learned_text("assistant", 1) == "second<|im_end|>\n");
}

TEST_CASE("sft.max_length: longer rows are an error, dropped, or cut at the end") {
  const std::string text =
      "{\"prompt\": \"ab\", \"response\": \"cde\"}\n{\"prompt\": \"a\", \"response\": \"c\"}\n"
      "{\"prompt\": \"abcdef\", \"response\": \"c\"}\n";
  CHECK(says(error_of(text, ", max_length: 4"),
             "rows.jsonl:1: expected a row of at most sft.max_length = 4 tokens, got 6"));
  CHECK(sft_rows_of(text, ", max_length: 4, overlong: filter").train.size() == 1);
  const train::SftRows cut = sft_rows_of(text, ", max_length: 4, overlong: truncate");
  REQUIRE(cut.train.size() == 2);  // of the third row nothing is left to learn
  CHECK(cut.train[0].rest == std::vector<types::TokenId>{'c', 'd'});
}

TEST_CASE("supervised epochs: updates take each row once") {
  train::Recipe recipe = parsed("{train_files: [a], epochs: 3, batch_size: 4}");
  train::SftRows rows;
  rows.train.resize(10);
  CHECK(train::cold_start_updates(recipe, rows) == 8);  // 30 rows
  for (const bool shuffle : {false, true}) {
    recipe.sft.shuffle = shuffle;
    std::vector<std::size_t> taken;
    std::vector<std::int64_t> ends;
    for (std::int64_t step = 0; step < 8; ++step) {
      for (const std::size_t i : train::rows_of_update(recipe, 10, step)) taken.push_back(i);
      if (train::ends_epoch(recipe, 10, step)) ends.push_back(step);
    }
    REQUIRE(taken.size() == 30);
    CHECK(ends == std::vector<std::int64_t>{2, 4, 7});
    for (std::size_t epoch = 0; epoch < 3; ++epoch)
      CHECK(std::set<std::size_t>(taken.begin() + 10 * epoch, taken.begin() + 10 * (epoch + 1)).size() == 10);
    CHECK(std::is_sorted(taken.begin(), taken.begin() + 10) == !shuffle);
    if (shuffle) CHECK_FALSE(std::equal(taken.begin(), taken.begin() + 10, taken.begin() + 10));
  }
}

TEST_CASE("supervised rows: an unusable one has one error with file and line") {
  const std::pair<const char*, const char*> cases[] = {
      {"[1]", "a JSON array"},
      {"{\"a\": 1}", "rows.jsonl:1: expected one of `prompt`, `question`, or `messages`, got no such key"},
      {"{\"prompt\": \"a\"}", "one of `response`, `completion`, `answer` in addition to the prompt, got no such key"},
      {"{\"prompt\": \"a\", \"response\": \"b\", \"answer\": \"c\"}", "both `response` and `answer`"},
      {"{\"prompt\": \"a\", \"messages\": []}", "`messages`, or `prompt` with its response, got both"},
      {"{\"prompt\": \" \", \"response\": \"b\"}", "`prompt` to contain text"},
      {"{\"prompt\": \"a\", \"response\": 3}", "`response` with text or messages, got number"},
      {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}", "more than one question and its answer"},
  };
  for (const auto& [row, message] : cases) {
    INFO(row);
    CHECK(says(error_of(row), message));
  }
  CHECK(says(refusal_of([] {
               (void)train::load_sft_rows(parsed("{train_files: [/no/such.jsonl], epochs: 1}"),
                                          data::Tokenizer::byte_level());
             }),
             "/no/such.jsonl: expected a JSONL file, got no such file"));
}
