// Tests tokenizers in GGUF files (scripts/golden/gguf_files.py) against the tokenizer.json files that they were made
// from.
#include <fstream>
#include <nlohmann/json.hpp>

#include "data/gguf_keys.h"
#include "data/tokenizer.h"
#include "data/tokenizer/gguf.h"
#include "support/files.h"
#include "support/refusal.h"

using namespace qrl;
using Ids = std::vector<types::TokenId>;

namespace {

const std::filesystem::path kGolden = test::shipped_data() / "golden";

/// Requires the ids of a golden file's rows {"text", "ids"}, more than 100.
void require_ids(const data::Tokenizer& tokenizer, const std::filesystem::path& cases) {
  std::ifstream in(cases);
  int num_cases = 0;
  for (std::string line; std::getline(in, line); ++num_cases) {
    const auto row = nlohmann::json::parse(line);
    INFO(line);
    REQUIRE(tokenizer.encode_trusted(row["text"].get<std::string>()) == row["ids"].get<Ids>());
  }
  CHECK(num_cases > 100);
}

}  // namespace

TEST_CASE("gguf tokenizer: texts get the ids of Hugging Face's tokenizers, for every split") {
  for (const std::string name : {"gpt2", "llama3", "qwen2", "digits"}) {
    INFO(name);
    const state::GgufFile file(kGolden / "gguf" / ("tokenizer_" + name + ".gguf"));
    const data::Tokenizer tokenizer = data::Tokenizer::parse(data::gguf_tokenizer(file).tokenizer, "", name);
    require_ids(tokenizer, kGolden / "tokenizer_bpe" / (name + ".cases.jsonl"));
  }
}

TEST_CASE("gguf tokenizer: scores of SentencePiece become merges, with the ids of Hugging Face's tokenizers") {
  const data::Tokenizer tokenizer = data::Tokenizer::load(kGolden / "gguf" / "tokenizer_spaced.gguf");
  CHECK(tokenizer.prefix() == Ids{1});
  CHECK(tokenizer.eos() == 2);
  require_ids(tokenizer, kGolden / "gguf" / "tokenizer_spaced.cases.jsonl");
}

TEST_CASE("gguf tokenizer: another kind or split is refused by its word") {
  const std::string good = test::read_file(kGolden / "gguf" / "tokenizer_qwen2.gguf");
  const test::TempDir dir;
  const auto refusal = [&](const std::string& from, const std::string& to) {
    std::string changed = good;
    changed.replace(changed.find(from), from.size(), to);
    std::ofstream(dir / "x.gguf", std::ios::binary) << changed;
    return test::refusal_of([&] { (void)data::gguf_tokenizer(state::GgufFile(dir / "x.gguf")); });
  };
  CHECK(test::says(refusal("qwen2", "qwen9"), "qwen9"));
  CHECK(test::says(refusal("gpt2", "bert"), "\"bert\""));
  CHECK(test::says(refusal("ggml.pre", "ggml.prx"), "no such key"));
}

TEST_CASE("gguf tokenizer: an exported one has the tokens, kinds, merges and split of gguf's file") {
  for (const std::string name : {"gpt2", "llama3", "qwen2", "digits"}) {
    INFO(name);
    const state::GgufFile want(kGolden / "gguf" / ("tokenizer_" + name + ".gguf"));
    const std::int64_t count = std::ssize(*want.texts("tokenizer.ggml.tokens"));
    const auto tokenizer = data::Tokenizer::load(kGolden / "tokenizer_bpe" / (name + ".json"));
    const test::TempDir dir;
    state::write_gguf(dir / "x.gguf", data::gguf_keys(tokenizer, count), {}, {});
    const state::GgufFile got(dir / "x.gguf");
    for (const char* key : {"tokenizer.ggml.tokens", "tokenizer.ggml.merges"})
      CHECK(*got.texts(key) == *want.texts(key));
    CHECK(*got.integers("tokenizer.ggml.token_type") == *want.integers("tokenizer.ggml.token_type"));
    for (const char* key : {"tokenizer.ggml.model", "tokenizer.ggml.pre"}) CHECK(*got.text(key) == *want.text(key));
    CHECK(*got.flag("tokenizer.ggml.add_bos_token") == !tokenizer.prefix().empty());
  }
}

TEST_CASE("gguf tokenizer: one that llama.cpp would split otherwise is not exported") {
  const auto refusal = [](const std::string& from, const std::string& to) {
    std::string text = test::read_file(kGolden / "tokenizer_bpe" / "qwen2.json");
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    const auto tokenizer = data::Tokenizer::parse(text, "", "qwen2");
    return test::refusal_of([&] { (void)data::gguf_keys(tokenizer, tokenizer.vocab_size()); });
  };
  CHECK(test::says(refusal("\\\\p{N}|", "\\\\p{N}{1,2}|"), "deepseek-r1-qwen"));
  CHECK(test::says(refusal("\"lstrip\":false", "\"lstrip\":true"), "lstrip"));
}
