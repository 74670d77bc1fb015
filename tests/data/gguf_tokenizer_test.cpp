// Tests tokenizers in GGUF files (scripts/golden/gguf_files.py) against the tokenizer.json files that they were made
// from.
#include <fstream>
#include <nlohmann/json.hpp>

#include "data/tokenizer.h"
#include "data/tokenizer/gguf.h"
#include "support/files.h"
#include "support/refusal.h"

using namespace qrl;
using Ids = std::vector<types::TokenId>;

namespace {

const std::filesystem::path kGolden = test::shipped_data() / "golden";

}  // namespace

TEST_CASE("gguf tokenizer: texts get the ids of Hugging Face's tokenizers, for every split") {
  for (const std::string name : {"gpt2", "llama3", "qwen2", "digits"}) {
    INFO(name);
    const state::GgufFile file(kGolden / "gguf" / ("tokenizer_" + name + ".gguf"));
    const data::Tokenizer tokenizer = data::Tokenizer::parse(data::gguf_tokenizer(file).tokenizer, "", name);
    std::ifstream cases(kGolden / "tokenizer_bpe" / (name + ".cases.jsonl"));
    int num_cases = 0;
    for (std::string line; std::getline(cases, line); ++num_cases) {
      const auto row = nlohmann::json::parse(line);
      INFO(line);
      REQUIRE(tokenizer.encode_trusted(row["text"].get<std::string>()) == row["ids"].get<Ids>());
    }
    CHECK(num_cases > 100);
  }
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
  CHECK(test::says(refusal("gpt2", "bert"), "SentencePiece"));
  CHECK(test::says(refusal("ggml.pre", "ggml.prx"), "no such key"));
}
