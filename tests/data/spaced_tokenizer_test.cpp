// Tests BPE with spaces spelled "▁" (Llama 2, Mistral, Phi-3, Gemma) against the tokenizers library.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "data/tokenizer.h"
#include "support/catch.h"
#include "support/files.h"
#include "support/refusal.h"

using namespace qrl::data;
using nlohmann::json;
using Ids = std::vector<qrl::types::TokenId>;

namespace {

const std::filesystem::path kFolder = qrl::test::shipped_data() / "golden" / "tokenizer_bpe";

json spaced_json(const char* name) {
  return json::parse(qrl::test::read_file(kFolder / (std::string(name) + ".json")));
}

std::string spaced_refusal(const json& file) {
  return qrl::test::refusal_of([&] { (void)Tokenizer::parse(file.dump(), "", "x.json"); });
}

}  // namespace

TEST_CASE("spaced BPE and Unigram: ids and decoded texts are the tokenizers library's, for every kind") {
  for (const char* name : {"spaced_llama2", "spaced_first", "spaced_each", "spaced_gemma", "spaced_unknown",
                           "spaced_unfused", "spaced_unigram", "spaced_map"}) {
    INFO(name);
    const Tokenizer tokenizer = Tokenizer::load(kFolder / (std::string(name) + ".json"));
    std::ifstream rows(kFolder / (std::string(name) + ".cases.jsonl"));
    int num_rows = 0;
    for (std::string line; std::getline(rows, line); ++num_rows) {
      const json row = json::parse(line);
      INFO(line);
      const auto ids = row["ids"].get<Ids>();
      REQUIRE(tokenizer.encode_trusted(row["text"].get<std::string>()) == ids);
      REQUIRE(tokenizer.decode(ids) == row["decoded"].get<std::string>());
    }
    CHECK(num_rows > 100);
  }
}

TEST_CASE("spaced BPE: user text never becomes a control token or a byte's token") {
  // As in some converted files, letters merge into a control token: here into the last merge's.
  json file = spaced_json("spaced_first");
  const json last = file["model"]["merges"].back();
  const std::string word = last[0].get<std::string>() + last[1].get<std::string>();
  file["added_tokens"][1]["content"] = word;
  file["added_tokens"][1]["id"] = file["model"]["vocab"][word];
  const Tokenizer tokenizer = Tokenizer::parse(file.dump(), "", "x");
  CHECK(std::ranges::count(tokenizer.encode(word), tokenizer.added_token_id(word)) == 0);
  for (const std::string text : {"a</s>b", "<unk> x", "<|end|>"}) {
    INFO(text);
    const Ids ids = tokenizer.encode(text);
    for (const char* control : {"</s>", "<unk>", "<|end|>"})
      CHECK(std::ranges::count(ids, tokenizer.added_token_id(control)) == 0);
    CHECK(tokenizer.decode(ids) == text);
  }
  const Ids newline = tokenizer.encode("\n"), spelled = tokenizer.encode("<0x0A>");
  CHECK(newline != spelled);
  CHECK(tokenizer.decode(spelled) == "<0x0A>");
}

TEST_CASE("spaced BPE: characters without a token are made of bytes, which a stream joins") {
  const Tokenizer tokenizer = Tokenizer::load(kFolder / "spaced_first.json");
  const Ids ids = tokenizer.encode("🙂");
  CHECK(ids.size() == 5);  // a space and four bytes
  CHECK(tokenizer.unencodable_bytes("🙂") == 0);
  StreamDecoder stream(tokenizer);
  std::string shown;
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) shown += stream.push(ids[i]);
  CHECK(shown == " ");
  CHECK(stream.push(ids.back()) == "🙂");
  const Tokenizer lacks = Tokenizer::load(kFolder / "spaced_unknown.json");
  CHECK(lacks.unencodable_bytes("a🙂b") == 4);
}

TEST_CASE("spaced BPE: bytes that are not UTF-8 become tokens of bytes") {
  const Tokenizer tokenizer = Tokenizer::load(kFolder / "spaced_llama2.json");
  const std::string broken = "a\xff\xe6\x97";
  CHECK(tokenizer.decode(tokenizer.encode(broken)) == broken);
}

TEST_CASE("spaced BPE: a long text without spaces has the ids of its library, in any piece length") {
  const Tokenizer tokenizer = Tokenizer::load(kFolder / "spaced_gemma.json");
  const Ids one = tokenizer.encode("the cat"), many = [&] {
    std::string text;
    for (int i = 0; i < 4000; ++i) text += "\x01";  // a character without merges, 4,000 times
    return tokenizer.encode(text);
  }();
  CHECK(many.size() == 4000);
  CHECK(std::ranges::count(many, many.front()) == 4000);
  CHECK(tokenizer.decode(one) == "the cat");
}

TEST_CASE("spaced BPE: a part that is not supported is refused by its text") {
  json file = spaced_json("spaced_llama2");
  file["normalizer"]["normalizers"].push_back({{"type", "NFKC"}});
  CHECK(qrl::test::says(spaced_refusal(file), "NFKC"));
  file = spaced_json("spaced_llama2");
  file["decoder"]["decoders"].push_back({{"type", "CTC"}});
  CHECK(qrl::test::says(spaced_refusal(file), "CTC"));
  file = spaced_json("spaced_llama2");
  file["decoder"]["decoders"].erase(1);
  CHECK(qrl::test::says(spaced_refusal(file), "a decoder with ByteFallback"));
  file = spaced_json("spaced_llama2");
  file["model"]["vocab"]["<0x4Z>"] = file["model"]["vocab"]["<0x41>"];
  file["model"]["vocab"].erase("<0x41>");
  CHECK(qrl::test::says(spaced_refusal(file), "no token for byte 65"));
}

TEST_CASE(
    "Unigram: a long text without spaces takes little time, and unknown characters next to each other are one token") {
  const Tokenizer tokenizer = Tokenizer::load(kFolder / "spaced_map.json");
  std::string text;
  while (text.size() < 100'000) text += "thecatsatonthemat";
  const double start_s = qrl::base::now_s();
  const Ids ids = tokenizer.encode(text);
  CHECK(qrl::base::now_s() - start_s < 1);
  CHECK(tokenizer.decode(ids) == text);
  CHECK(std::ranges::count(tokenizer.encode("a\U0001F642\U0001F643 b"), 0) == 1);
  CHECK(tokenizer.unencodable_bytes("a\U0001F642\U0001F643 b") == 8);
}

TEST_CASE("Unigram: broken files are refused by the part that is wrong") {
  const auto broken = [](const char* part, const json& value, const char* about) {
    json file = spaced_json("spaced_map");
    file[json::json_pointer(part)] = value;
    INFO(part << " " << value);
    CHECK(qrl::test::says(spaced_refusal(file), about));
  };
  const char* map = "/normalizer/normalizers/0/precompiled_charsmap";
  broken(map, "!!!!", "base64");
  broken(map, "AAAA", "precompiled_charsmap");
  broken(map, "/////w==", "precompiled_charsmap");
  broken("/model/vocab/3", json::array({"a"}), "vocab");
  broken("/model/vocab/3", json::array({1, 2}), "vocab");
  broken("/model/unk_id", nullptr, "unk_id");
  broken("/model/unk_id", 100000, "unk_id");
  broken("/model/byte_fallback", true, "<0x");
  broken("/pre_tokenizer", nullptr, "Unigram");
  broken("/normalizer/normalizers/1", json{{"type", "Lowercase"}}, "Lowercase");
  // A trie whose units point outside it finds nothing.
  json file = spaced_json("spaced_map");
  file[json::json_pointer(map)] = "BAAAAP///38=";
  CHECK(Tokenizer::parse(file.dump(), "", "x").decode(Tokenizer::parse(file.dump(), "", "x").encode("the cat")) ==
        "the cat");
}
