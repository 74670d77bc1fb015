#include "data/tokenizer.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/rng.h"
#include "data/tokenizer/byte_alphabet.h"
#include "support/files.h"
#include "support/refusal.h"

using namespace qrl::data;
using nlohmann::json;
using qrl::test::refusal_of;
using qrl::test::says;
using Ids = std::vector<qrl::types::TokenId>;

namespace {

std::filesystem::path small_golden_dir() { return qrl::test::shipped_data() / "golden" / "tokenizer"; }

json golden_file() { return json::parse(qrl::test::read_file(small_golden_dir() / "tokenizer.json")); }

std::string refusal(const std::string& text, const std::string& eos = "<|endoftext|>") {
  return refusal_of([&] { Tokenizer::parse(text, eos, "tokenizer.json"); });
}
std::string refusal_of_json(const json& file) { return refusal(file.dump()); }

std::string random_bytes(qrl::base::RandomStream& random, std::size_t max_size) {
  std::string bytes(random.below(max_size + 1), '\0');
  for (char& c : bytes) c = static_cast<char>(random.below(256));
  return bytes;
}

}  // namespace

TEST_CASE("tokenizer: texts get transformers' ids") {
  const Tokenizer made = Tokenizer::byte_level();
  const Tokenizer loaded = Tokenizer::load(small_golden_dir());  // saved by transformers
  CHECK(loaded.eos() == 256);
  CHECK(loaded.vocab_size() == 259);
  std::ifstream cases(small_golden_dir() / "cases.jsonl");
  int num_cases = 0, num_with_tokens = 0;
  for (std::string line; std::getline(cases, line); ++num_cases) {
    const json row = json::parse(line);
    const std::string text = row["text"];
    INFO(row["text"].dump());
    const Ids plain = row["plain"], trusted = row["trusted"];
    num_with_tokens += plain != trusted;
    for (const Tokenizer& tokenizer : {made, loaded}) {
      CHECK(tokenizer.encode(text) == plain);
      CHECK(tokenizer.encode_trusted(text) == trusted);
      CHECK(tokenizer.decode(plain) == text);
      CHECK(tokenizer.decode(trusted) == row["decoded"].get<std::string>());
    }
  }
  CHECK(num_cases > 100);
  CHECK(num_with_tokens > 40);
}

TEST_CASE("tokenizer: save writes what the tokenizers library writes, and load reads it back") {
  const qrl::test::TempDir dir;
  Tokenizer::byte_level().save(dir.path());
  json want = golden_file();
  want["post_processor"] = nullptr;         // transformers adds an empty template
  want["decoder"] = want["pre_tokenizer"];  // its flags have no effect in a decoder: the library writes true
  CHECK(json::parse(qrl::test::read_file(dir / "tokenizer.json")) == want);
  const json config = json::parse(qrl::test::read_file(dir / "tokenizer_config.json"));
  CHECK(config["eos_token"] == "<|endoftext|>");
  CHECK(config["pad_token"] == "<|endoftext|>");

  const Tokenizer loaded = Tokenizer::load(dir.path());
  CHECK(loaded.eos() == 256);
  CHECK(loaded.vocab_size() == 259);
  const qrl::test::TempDir again;
  loaded.save(again.path());
  CHECK(qrl::test::read_file(again / "tokenizer.json") == qrl::test::read_file(dir / "tokenizer.json"));
}

TEST_CASE("tokenizer: the byte alphabet is a bijection") {
  std::string all_spelled;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string& spelling = byte_spelling(static_cast<unsigned char>(byte));
    CHECK(bytes_of_spelling(spelling) == std::string(1, static_cast<char>(byte)));
    all_spelled += spelling;
  }
  CHECK(byte_spelling(' ') == "Ġ");
  CHECK(byte_spelling('\n') == "Ċ");
  CHECK(byte_spelling(0xad) == "Ń");
  CHECK(bytes_of_spelling(all_spelled)->size() == 256);
  for (const char* foreign : {" ", "\n", "a b", "\u0144", "\u00ad", "日", "\xc4"})
    CHECK_FALSE(bytes_of_spelling(foreign));
}

TEST_CASE("tokenizer: any bytes round-trip, and user text never becomes an added token") {
  const Tokenizer tokenizer = Tokenizer::byte_level();
  for (std::uint64_t i = 0; i < 5000; ++i) {
    qrl::base::RandomStream random(21, qrl::base::RandomPurpose::test, i);
    std::string text = random_bytes(random, 60);
    for (const char* token : {"<answer>", "</answer>", "<|endoftext|>"}) {
      if (random.below(2) == 0) text.insert(random.below(text.size() + 1), token);
    }
    const Ids ids = tokenizer.encode(text);
    REQUIRE(ids.size() == text.size());
    REQUIRE(std::all_of(ids.begin(), ids.end(), [](auto id) { return id >= 0 && id < 256; }));
    REQUIRE(tokenizer.decode(ids) == text);
    std::string spelled = tokenizer.decode(tokenizer.encode_trusted(text));
    for (std::size_t at; (at = text.find("<|endoftext|>")) != std::string::npos;) text.erase(at, 13);
    if (text.find("<|end") == std::string::npos) REQUIRE(spelled == text);
  }
  CHECK(tokenizer.encode("<answer>") == Ids{'<', 'a', 'n', 's', 'w', 'e', 'r', '>'});
  CHECK(tokenizer.encode_trusted("<answer>") == Ids{257});
  CHECK(tokenizer.decode(Ids{257, '5', 258, 256}) == "<answer>5</answer>");
  CHECK(tokenizer.decode(Ids{-1, 259, 1 << 30, 'x'}) == "x");
}

TEST_CASE("tokenizer: the longest of added tokens with one start is taken") {
  json file = golden_file();
  for (const char* content : {"<a", "<a>", "<a>b"}) {
    json added = file["added_tokens"][1];
    added["id"] = 256 + file["added_tokens"].size();
    added["content"] = content;
    file["added_tokens"].push_back(added);
  }
  const Tokenizer tokenizer = Tokenizer::parse(file.dump(), "<|endoftext|>", "x");
  CHECK(tokenizer.encode_trusted("<a>b<a>c<ac<answer>") == Ids{261, 260, 'c', 259, 'c', 257});
}

TEST_CASE("tokenizer: settings that would change ids are refused by name") {
  const json good = golden_file();
  REQUIRE(refusal_of_json(good) == "accepted");
  const auto with = [&](const char* pointer, const json& value) {
    json file = good;
    file[json::json_pointer(pointer)] = value;
    return refusal_of_json(file);
  };
  CHECK(says(with("/model/merges", {"a b"}), "merges of vocabulary tokens into a vocabulary token"));
  CHECK(says(with("/model/merges", json::parse(R"([["a","b"]])")), "which is not in the vocabulary"));
  CHECK(says(with("/model/merges", {"a"}), "merge 0 to be two tokens"));
  CHECK(says(with("/model/merges", {"a b c"}), "merge 0 to be two tokens"));
  CHECK(says(with("/model/type", "WordPiece"), "WordPiece"));
  CHECK(says(with("/model/byte_fallback", true), "byte_fallback"));
  CHECK(says(with("/model/dropout", 0.1), "dropout"));
  CHECK(says(with("/model/end_of_word_suffix", "</w>"), "end_of_word_suffix"));
  CHECK(says(with("/model/surprise", 1), "surprise"));
  CHECK(says(with("/normalizer", {{"type", "Quantum"}}), "Quantum"));
  CHECK(says(with("/pre_tokenizer", {{"type", "Whitespace"}}), "Whitespace"));
  CHECK(says(with("/pre_tokenizer", nullptr), "pre_tokenizer"));
  CHECK(says(with("/pre_tokenizer/add_prefix_space", true), "add_prefix_space"));
  CHECK(says(with("/decoder", {{"type", "Fuse"}}), "Fuse"));
  CHECK(says(with("/post_processor/single/0", {{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}}), "<s>"));
  CHECK(says(with("/post_processor/single", json::array()), "to hold the text"));
  CHECK(says(with("/post_processor", {{"type", "BertProcessing"}}), "BertProcessing"));
  CHECK(says(with("/version", "2.0"), "version"));
  CHECK(says(with("/surprise", 1), "surprise"));
  CHECK(says(with("/normalizer", {{"type", "NFKC"}}), "normalizer \"NFKC\""));
  const auto split = [&](const json& pattern, const char* behavior, bool invert) {
    const json cut = {{"type", "Split"}, {"pattern", pattern}, {"behavior", behavior}, {"invert", invert}};
    return with("/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {cut, good["pre_tokenizer"]}}});
  };
  CHECK(split({{"Regex", "a+"}}, "Isolated", false) == "accepted");
  CHECK(split({{"String", "a+("}}, "Removed", true) == "accepted");
  CHECK(says(split({{"Regex", "a+"}}, "Removed", false), "Split with behavior \"Removed\""));
  CHECK(says(split({{"Regex", "a+"}}, "MergedWithNext", false), "MergedWithNext"));
  CHECK(says(split({{"Regex", "(["}}, "Isolated", false), "[ without ]"));
  CHECK(says(split({{"Glob", "a"}}, "Isolated", false), "Glob"));
  // These settings have no effect without merges.
  CHECK(with("/pre_tokenizer/use_regex", true) == "accepted");
  CHECK(with("/pre_tokenizer/trim_offsets", true) == "accepted");
  CHECK(with("/decoder/add_prefix_space", true) == "accepted");
  CHECK(with("/post_processor", nullptr) == "accepted");
  CHECK(with("/post_processor", good["decoder"]) == "accepted");
  CHECK(with("/model/end_of_word_suffix", "") == "accepted");
  // A call with truncation=True, padding=True saves them in the file; transformers ignores them when loading.
  CHECK(with("/truncation", {{"max_length", 3}}) == "accepted");
  CHECK(with("/padding", {{"strategy", "BatchLongest"}}) == "accepted");
}

TEST_CASE("tokenizer: faulty vocabularies and added tokens are refused") {
  const json good = golden_file();
  const auto edited = [&](const auto& edit) {
    json file = good;
    edit(file);
    return refusal_of_json(file);
  };
  CHECK(says(edited([](json& f) { f["model"]["vocab"].erase("a"); }), "without gaps or repeats"));
  CHECK(says(edited([](json& f) { f["model"]["vocab"].erase("ÿ"); }), "to have id 255"));
  CHECK(says(edited([](json& f) { f["model"]["vocab"]["a"] = 98; }), "without gaps or repeats"));
  CHECK(says(edited([](json& f) { f["model"]["vocab"]["a"] = -1; }), "id from 0"));
  CHECK(says(edited([](json& f) { f["model"]["vocab"]["a"] = 97.0; }), "id from 0"));
  CHECK(says(edited([](json& f) { f["model"]["vocab"]["a"] = std::uint64_t{1} << 40; }), "id from 0"));
  CHECK(says(edited([](json& f) { f["model"]["vocab"] = json::object(); }), "vocab"));
  CHECK(says(edited([](json& f) {
               f["model"]["vocab"].erase("a");
               f["model"]["vocab"]["ab"] = 97;
               f["model"]["unk_token"] = "<unk>";
             }),
             "model.unk_token to be a token of model.vocab, got \"<unk>\""));
  // Merges that spell a control token would create one from user text.
  CHECK(says(edited([](json& f) {
               f["model"]["vocab"]["<a"] = 256;
               f["model"]["merges"] = {"< a"};
               for (int k = 0; k < 3; ++k) f["added_tokens"][k]["id"] = 256 + k;
               f["added_tokens"][0]["content"] = "<a";
             }),
             "merges that do not produce an added token"));
  CHECK(says(edited([](json& f) { f["added_tokens"][2]["content"] = "<answer>"; }), "twice"));
  CHECK(says(edited([](json& f) { f["added_tokens"][2]["id"] = 257; }), "to have id 258"));
  CHECK(says(edited([](json& f) { f["added_tokens"][2]["id"] = 1000; }), "to have id 258"));
  CHECK(says(edited([](json& f) { f["added_tokens"][2]["content"] = ""; }), "content"));
  CHECK(says(edited([](json& f) { f["added_tokens"][2] = 5; }), "objects"));
  CHECK(says(edited([](json& f) { f["added_tokens"].erase(0); }), "257"));
  CHECK(says(edited([](json& f) { f["added_tokens"][0]["special"] = false; }), "end token"));
  // An added token equal to a byte's token would turn that byte in user text into a control token.
  CHECK(says(edited([](json& f) {
               f["added_tokens"][0]["content"] = "a";
               f["added_tokens"][0]["id"] = 97;
               for (int k : {1, 2}) f["added_tokens"][k]["id"] = 255 + k;
             }),
             "special added tokens that are not single bytes of the vocabulary, got \"a\""));
  // An added token that is no control token is just that byte, with the vocabulary's id, as in the tokenizers library.
  json byte = good;
  byte["added_tokens"][2]["content"] = "é";
  CHECK(Tokenizer::parse(byte.dump(), "", "x").encode_trusted("xéy\xe9") == Ids{'x', 0xe9, 'y', 0xe9});
  CHECK(says(refusal(R"({"version":"1.0","version":"1.0"})"), "twice"));
  CHECK(says(refusal("{"), "JSON"));
  CHECK(says(refusal(""), "JSON"));
  CHECK(says(refusal("\xEF\xBB\xBF{}"), "byte-order mark"));
  CHECK(says(refusal(R"({"version":"\ud800"})"), "syntax error"));
  CHECK(says(refusal(std::string(100000, '[')), "nested at most"));
  CHECK(says(refusal(good.dump(), "</s>"), "</s>"));
}

TEST_CASE("tokenizer: multi-byte entries without merges are kept and never drawn from text") {
  json file = golden_file();
  file["model"]["vocab"]["Ġthe"] = 256;
  file["model"]["vocab"]["<|endoftext|>"] = 257;
  file["added_tokens"][0]["id"] = 257;
  for (int k : {1, 2}) file["added_tokens"][k]["id"] = 257 + k;
  const Tokenizer tokenizer = Tokenizer::parse(file.dump(), "<|endoftext|>", "x");
  CHECK(tokenizer.vocab_size() == 260);
  CHECK(tokenizer.encode(" the") == Ids{' ', 't', 'h', 'e'});
  CHECK(tokenizer.decode(Ids{256, 257}) == " the");
  CHECK(tokenizer.encode("<|endoftext|>").size() == 13);
  CHECK(tokenizer.encode_trusted("<|endoftext|>") == Ids{257});
  const qrl::test::TempDir dir;
  tokenizer.save(dir.path());
  CHECK(json::parse(qrl::test::read_file(dir / "tokenizer.json"))["model"]["vocab"] == file["model"]["vocab"]);
}

TEST_CASE("tokenizer: an entry outside the byte-level alphabet is never drawn from text, and decodes as spelled") {
  json file = golden_file();
  for (const auto& [entry, id] : {std::pair("a b", 256), {"\U000F0000", 257}, {"", 258}})
    file["model"]["vocab"][entry] = id;
  for (int k = 0; k < 3; ++k) file["added_tokens"][static_cast<std::size_t>(k)]["id"] = 259 + k;
  for (const bool ignore_merges : {false, true}) {
    file["model"]["ignore_merges"] = ignore_merges;
    const Tokenizer tokenizer = Tokenizer::parse(file.dump(), "", "x");
    CHECK(tokenizer.encode("a b") == Ids{'a', ' ', 'b'});
    CHECK(tokenizer.encode("\U000F0000") == Ids{0xf3, 0xb0, 0x80, 0x80});
    CHECK(tokenizer.decode(Ids{256, 257, 258, 'x'}) == "a b\U000F0000x");
  }
}

TEST_CASE("tokenizer: shared malformed files behave as declared") {
  const auto shared = qrl::test::shared_data();
  if (!shared) return qrl::test::skip("the shared data is missing: malformed/tokenizer");
  // Lists the rows on which the manifest leaves the choice to this program and that it accepts; all others are refused.
  const std::set<std::string> accepted_by_policy = {"tokenizer/merge_dup.json"};
  std::ifstream manifest(*shared / "malformed" / "manifest.jsonl");
  int num_files = 0;
  for (std::string line; std::getline(manifest, line);) {
    const json row = json::parse(line);
    if (row["kind"] != "tokenizer") continue;
    ++num_files;
    const std::string file = row["file"];
    const std::string why = refusal(qrl::test::read_file(*shared / "malformed" / file), "");
    INFO(file << ": " << why);
    CHECK((why == "accepted") == (row["expect"] == "accept" || accepted_by_policy.count(file) > 0));
  }
  CHECK(num_files == 19);
  const Tokenizer tiny = Tokenizer::load(*shared / "tokenizer" / "titan_tiny_tokenizer.json");
  CHECK(tiny.encode("Hello, world") ==
        Ids{72, 101, 108, 108, 111, 44, 119, 111, 114, 108, 100});  // no token for a space
}

TEST_CASE("tokenizer: load names a missing or faulty file") {
  const qrl::test::TempDir dir;
  CHECK(says(refusal_of([&] { Tokenizer::load(dir.path()); }), "tokenizer.json"));
  Tokenizer::byte_level().save(dir.path());
  const auto write_config = [&](const std::string& text) { std::ofstream(dir / "tokenizer_config.json") << text; };
  write_config(R"({"eos_token":{"content":"<|endoftext|>","special":true}})");
  CHECK(Tokenizer::load(dir.path()).eos() == 256);
  for (const char* bad : {"[]", R"({"eos_token":{}})", R"({"eos_token":""})", R"({"eos_token":"<answer>"})", "{"}) {
    INFO(bad);
    write_config(bad);
    CHECK_THROWS_AS(Tokenizer::load(dir.path()), qrl::base::Error);
  }
  // Encoding and decoding work without an end token; only callers that need one fail.
  write_config("{}");
  CHECK(Tokenizer::load(dir.path()).eos() == -1);
  std::filesystem::remove(dir / "tokenizer_config.json");
  CHECK(Tokenizer::load(dir.path()).eos() == -1);
  CHECK(Tokenizer::load(dir / "tokenizer.json").encode("a") == Ids{97});
  // Otherwise the model's own config names the end token, if it is a control token.
  const auto write_generation = [&](const std::string& text) {
    std::ofstream(dir / "generation_config.json") << text;
    return Tokenizer::load(dir.path()).eos();
  };
  CHECK(write_generation(R"({"eos_token_id": 256})") == 256);
  CHECK(write_generation(R"({"eos_token_id": [256, 97]})") == 256);
  for (const char* none : {R"({"eos_token_id": null})", R"({"eos_token_id": []})", "{}", R"({"eos_token_id": 97})",
                           R"({"eos_token_id": -1})", R"({"eos_token_id": 1000})"}) {
    INFO(none);
    CHECK(write_generation(none) == -1);
  }
  write_config(R"({"eos_token":"<|endoftext|>"})");
  CHECK(write_generation(R"({"eos_token_id": 97})") == 256);
  std::ofstream(dir / "tokenizer.json") << "version https://git-lfs.github.com/spec/v1\noid sha256:00\n";
  CHECK(
      says(refusal_of([&] { Tokenizer::load(dir.path()); }),
           "tokenizer.json: expected the file itself, got a Git LFS pointer; fetch the file itself with git lfs pull"));
}
