// Tests byte-level BPE ids against the tokenizers library: goldens in the repository for small tokenizers of each kind
// and, if the shared data exists, for the published ones.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/rng.h"
#include "base/text.h"
#include "data/tokenizer.h"
#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/split_pattern.h"
#include "support/files.h"
#include "support/refusal.h"

using namespace qrl::data;
using nlohmann::json;
using qrl::test::refusal_of;
using qrl::test::says;
using Ids = std::vector<qrl::types::TokenId>;

namespace {

std::filesystem::path golden_dir() { return qrl::test::shipped_data() / "golden" / "tokenizer_bpe"; }

Tokenizer golden(const std::string& name) { return Tokenizer::load(golden_dir() / (name + ".json")); }

/// Returns what a command prints.
std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  REQUIRE(pipe != nullptr);
  std::string text;
  for (int c = std::fgetc(pipe.get()); c != EOF; c = std::fgetc(pipe.get())) text += static_cast<char>(c);
  return text;
}

/// Compares the rows {"text", "ids"} of a golden file; returns their number.
int compare_rows(const Tokenizer& tokenizer, const std::string& rows) {
  std::istringstream in(rows);
  int num_rows = 0;
  for (std::string line; std::getline(in, line); ++num_rows) {
    const json row = json::parse(line);
    INFO(row["text"].dump());
    REQUIRE(tokenizer.encode_trusted(row["text"].get<std::string>()) == row["ids"].get<Ids>());
  }
  return num_rows;
}

/// Returns GPT-2's tokenizer.json, built from vocab.json and merges.txt like the tokenizers library does.
std::string gpt2_json(const std::filesystem::path& dir) {
  const json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}};
  json merges = json::array();
  std::istringstream lines(qrl::test::read_file(dir / "merges.txt"));
  std::string line;
  std::getline(lines, line);  // "#version: 0.2"
  while (std::getline(lines, line)) merges.push_back(line);
  const json end = {{"id", 50256},     {"content", "<|endoftext|>"}, {"single_word", false}, {"lstrip", false},
                    {"rstrip", false}, {"normalized", true},         {"special", true}};
  const json model = {
      {"type", "BPE"}, {"vocab", json::parse(qrl::test::read_file(dir / "vocab.json"))}, {"merges", merges}};
  return json({{"version", "1.0"},
               {"added_tokens", {end}},
               {"pre_tokenizer", byte_level},
               {"decoder", byte_level},
               {"model", model}})
      .dump();
}

std::string random_text(qrl::base::RandomStream& random) {
  static const std::vector<std::string> pieces = {"<|end|>", "<a>", " ", "    ", "the", "\n", "日本", "é",  "e\u0301",
                                                  "🙂",    "1",   "x", "'s",   "\t",  "½",  "각",   "wrd"};
  std::string text;
  for (std::uint64_t k = 1 + random.below(12); k > 0; --k) text += pieces[random.below(pieces.size())];
  return text;
}

}  // namespace

TEST_CASE("BPE: small tokenizers of every kind give the ids of the tokenizers library") {
  for (const char* name :
       {"qwen2", "llama3", "gpt2", "digits", "gaps", "added", "lacks_bytes", "unknown", "unknown_fused"}) {
    const Tokenizer tokenizer = golden(name);
    std::istringstream cases(qrl::test::read_file(golden_dir() / (std::string(name) + ".cases.jsonl")));
    int num_cases = 0;
    for (std::string line; std::getline(cases, line); ++num_cases) {
      const json row = json::parse(line);
      INFO(name << ": " << row["text"].dump());
      Ids ids = tokenizer.encode_trusted(row["text"].get<std::string>());
      CHECK(ids == row["ids"].get<Ids>());
      ids.insert(ids.begin(), tokenizer.prefix().begin(), tokenizer.prefix().end());
      ids.insert(ids.end(), tokenizer.suffix().begin(), tokenizer.suffix().end());
      CHECK(ids == row["with_special"].get<Ids>());
    }
    CHECK(num_cases > 120);
  }
  CHECK(golden("llama3").prefix().size() == 1);
}

TEST_CASE("BPE: bytes missing from a vocabulary are counted, and dropped or read as unk_token") {
  const Tokenizer lacks = golden("lacks_bytes"), unknown = golden("unknown"), fused = golden("unknown_fused");
  CHECK(lacks.lacks_bytes());
  CHECK_FALSE(golden("digits").lacks_bytes());
  CHECK(lacks.unencodable_bytes("cat\x04\x05 cat\xff") == 3);
  CHECK(golden("digits").unencodable_bytes("cat\x04\x05 cat\xff") == 0);
  CHECK(lacks.describe().find("no token for ") != std::string::npos);
  CHECK(golden("digits").describe().find("no token for ") == std::string::npos);
  // The neighbors of an omitted byte are merged, in short and in long pieces.
  const std::string long_word(100, 'a');
  for (const std::string& word : {std::string("cat"), long_word}) {
    CHECK(lacks.encode(word.substr(0, 1) + "\x04" + word.substr(1)) == lacks.encode(word));
    CHECK(unknown.encode(word.substr(0, 1) + "\x04" + word.substr(1)) != unknown.encode(word));
  }
  CHECK(lacks.encode("\x04").empty());
  CHECK(lacks.encode(std::string(100, '\x04')).empty());
  CHECK(unknown.encode("\x04\x05") == Ids{0, 0});
  CHECK(fused.encode("\x04\x05") == Ids{0});
  CHECK(unknown.encode("\xff") == Ids{0});  // not UTF-8
}

TEST_CASE("BPE: published tokenizers give the shared goldens") {
  const auto shared = qrl::test::shared_data();
  if (!shared) return qrl::test::skip("the shared data is missing: tokenizer");
  const auto dir = *shared / "tokenizer";
  const Tokenizer qwen3 = Tokenizer::load(dir / "qwen3");
  CHECK(qwen3.eos() == 151645);
  CHECK(compare_rows(qwen3, output_of("gzip -dc " + (dir / "qwen3_golden.jsonl.gz").string())) == 13834);
  const Tokenizer gpt2 = Tokenizer::parse(gpt2_json(dir / "gpt2"), "<|endoftext|>", "gpt2");
  CHECK(compare_rows(gpt2, qrl::test::read_file(dir / "gpt2_golden.jsonl")) == 47);
  CHECK(Tokenizer::load(dir / "phi2").encode("        x") == Ids{50280, 87});
}

TEST_CASE("BPE: whole corpora give the shared hashes of their ids") {
  const auto shared = qrl::test::shared_data();
  if (!shared) return qrl::test::skip("the shared data is missing: tokenizer, datasets");
  const Tokenizer qwen3 = Tokenizer::load(*shared / "tokenizer" / "qwen3");
  const qrl::test::TempDir dir;
  const json hashes = json::parse(qrl::test::read_file(*shared / "tokenizer" / "qwen3_corpus_hashes.json"));
  for (const auto& [name, want] : hashes.items()) {
    std::ifstream rows(*shared / "datasets" / (name + ".jsonl"));
    std::ofstream out(dir / name);
    std::size_t num_tokens = 0;
    for (std::string line; std::getline(rows, line);) {
      const json row = json::parse(line);
      for (const std::string field : want["fields"]) {
        const Ids ids = qwen3.encode_trusted(row[field].get<std::string>());
        for (std::size_t i = 0; i < ids.size(); ++i) out << (i == 0 ? "" : ",") << ids[i];
        out << '\n';
        num_tokens += ids.size();
      }
    }
    out.close();
    INFO(name);
    CHECK(num_tokens == want["total_tokens"]);
    CHECK(output_of("sha256sum " + (dir / name).string()).substr(0, 64) == want["sha256_of_id_lines"]);
  }
}

TEST_CASE("BPE merges: lowest rank first, leftmost among equals, alike for short and long pieces") {
  json file = json::parse(qrl::test::read_file(qrl::test::shipped_data() / "golden" / "tokenizer" / "tokenizer.json"));
  for (const auto& [token, id] : {std::pair("aa", 256), {"ab", 257}, {"aab", 258}}) file["model"]["vocab"][token] = id;
  for (int k = 0; k < 3; ++k) file["added_tokens"][static_cast<std::size_t>(k)]["id"] = 259 + k;
  file["model"]["merges"] = {"a b", "a a", "a ab"};
  const Tokenizer tokenizer = Tokenizer::parse(file.dump(), "", "x");
  CHECK(tokenizer.encode("aab") == Ids{258});
  CHECK(tokenizer.encode("aaab") == Ids{256, 257});
  CHECK(tokenizer.encode("aaa") == Ids{256, 97});
  for (const std::size_t size : {47, 48, 49, 200, 20000}) {  // an odd and an even number of a's before b
    Ids want(size / 2, 256);
    if (size % 2 == 1) want.push_back(97);
    CHECK(tokenizer.encode(std::string(size, 'a')) == want);
  }
  file["model"]["merges"] = {"a a", "a b", "a a"};  // the later rank applies, as in the tokenizers library
  CHECK(Tokenizer::parse(file.dump(), "", "x").encode("aab") == Ids{97, 257});
}

TEST_CASE("BPE: user text never becomes an added token except white space, and parts are read as one text") {
  const Tokenizer tokenizer = golden("added");
  const auto id_of = [&](const char* text) { return tokenizer.added_token_id(text); };
  REQUIRE(id_of("<|end|>") >= 0);
  CHECK(id_of("nobody") == -1);
  for (std::uint64_t i = 0; i < 3000; ++i) {
    qrl::base::RandomStream random(23, qrl::base::RandomPurpose::test, i);
    const std::string user = random_text(random), ours = random_text(random);
    const Ids ids = tokenizer.encode(user);
    for (const char* control : {"<|end|>", "<a>", "<a", "<a>>", "wrd", "zé"})
      REQUIRE(std::count(ids.begin(), ids.end(), id_of(control)) == 0);
    // If all parts are trusted, or none, the result equals that of the whole text.
    const std::string whole = ours + user;
    for (const bool trusted : {false, true}) {
      const std::array<TextPart, 2> parts = {{{ours, trusted}, {user, trusted}}};
      if (user.starts_with("\u0301")) continue;  // each part is normalized by itself
      REQUIRE(tokenizer.encode(parts) == (trusted ? tokenizer.encode_trusted(whole) : tokenizer.encode(whole)));
    }
  }
  const Ids spaces = tokenizer.encode("    x");
  CHECK(spaces.front() == id_of("    "));
  // A trusted and an untrusted part cannot form a control token together.
  const std::array<TextPart, 2> parts = {{{"<|end", true}, {"|>", false}}};
  CHECK(tokenizer.encode(parts) == tokenizer.encode("<|end|>"));
  const std::array<TextPart, 3> mixed = {{{"<|end|>a", true}, {"b<|end|>", false}, {"\n<|end|>", true}}};
  Ids want = {id_of("<|end|>")};
  for (const auto id : tokenizer.encode("ab<|end|>\n")) want.push_back(id);
  want.push_back(id_of("<|end|>"));
  CHECK(tokenizer.encode(mixed) == want);
}

TEST_CASE("BPE decoding: gives back the text or its normal form, and keeps any bytes") {
  const Tokenizer plain = golden("gpt2"), nfc = golden("qwen2");
  for (std::uint64_t i = 0; i < 3000; ++i) {
    qrl::base::RandomStream random(24, qrl::base::RandomPurpose::test, i);
    std::string text = random_text(random);
    REQUIRE(plain.decode(plain.encode(text)) == text);
    if (text.find("\u0301") == std::string::npos) REQUIRE(nfc.decode(nfc.encode(text)) == text);
    for (std::uint64_t k = random.below(4); k > 0; --k)
      text.insert(random.below(text.size() + 1), 1, static_cast<char>(random.below(256)));
    REQUIRE(plain.decode(plain.encode(text)) == text);
  }
  CHECK(nfc.decode(nfc.encode("e\u0301")) == "é");
  CHECK(nfc.decode(nfc.encode("a\u0345\u0301\u0323")) == "ạ\u0301\u0345");
  // U+1DF9 is newer than the tables of the tokenizers library, which does not reorder it.
  CHECK(nfc.decode(nfc.encode("a\u1df1\u1df9")) == "a\u1df1\u1df9");
  CHECK(nfc.decode(nfc.encode("\xff"
                              "e\u0301\xe9")) ==
        "\xff"
        "é\xe9");
}

TEST_CASE("BPE streaming: text arrives in whole characters and is complete at the end") {
  const Tokenizer tokenizer = golden("gpt2");
  for (std::uint64_t i = 0; i < 2000; ++i) {
    qrl::base::RandomStream random(25, qrl::base::RandomPurpose::test, i);
    std::string text = random_text(random);
    StreamDecoder decoder(tokenizer);
    std::string streamed;
    for (const auto id : tokenizer.encode(text)) {
      const std::string chunk = decoder.push(id);
      REQUIRE(qrl::base::is_utf8(chunk));
      streamed += chunk;
    }
    REQUIRE(streamed + decoder.finish() == text);
  }
  const auto streamed = [](std::string_view bytes) {
    const Tokenizer single = Tokenizer::byte_level();
    StreamDecoder decoder(single);
    std::string text;
    for (const char c : bytes) text += decoder.push(static_cast<unsigned char>(c));
    return text + decoder.finish();
  };
  CHECK(streamed("a\xc3") == "a\ufffd");
  CHECK(streamed("\xe6\x97x") == "\ufffdx");
  CHECK(streamed("\xe6\xff\x97") == "\ufffd\ufffd\ufffd");
  CHECK(streamed("\xed\xa0\x80") == "\ufffd\ufffd\ufffd");  // a surrogate
  CHECK(streamed("\xf0\x9f\x99\xe6\x97\xa5") == "\ufffd日");
  CHECK(streamed("\xc0\xaf\xf5") == "\ufffd\ufffd\ufffd");
  const Tokenizer byte_level = Tokenizer::byte_level();
  StreamDecoder spells(byte_level, true), hides(byte_level);
  CHECK(spells.push(256) == "<|endoftext|>");
  CHECK(hides.push(256).empty());
  CHECK(hides.push(100000).empty());
}

TEST_CASE("BPE split patterns: constructs on which two engines differ are refused by name") {
  const auto refusal = [](const std::string& pattern) {
    return refusal_of([&] { SplitPattern(pattern, "tokenizer.json"); });
  };
  for (const char* good : {"a|b", "\\p{Lu}+?\\P{N}", "[^\\r\\n\\p{L}\\d-]?+", "(?i:'s|x)(?=a)(?!b)(?<=c)(?<!d)(?>e)",
                           "\\p{N}{1,3}", "a{2,}b{3}", "[\\]\\-x]", "\\s+(?!\\S)", " ?#", "[一-龥]"}) {
    CHECK(refusal(good) == "accepted");
  }
  const std::vector<std::pair<std::string, std::string>> bad = {{"(\\w)\\1", "\\w"},    {"(a)\\1", "\\1"},
                                                                {"a.b", "\".\""},       {"^a", "\"^\""},
                                                                {"a$", "\"$\""},        {"\\bx", "\\b"},
                                                                {"\\h", "\\h"},         {"[a[b]]", "[ in a class"},
                                                                {"[a&&b]", "&&"},       {"[\\S]", "\\S"},
                                                                {"[\\P{L}]", "\\P"},    {"\\p{Han}", "\\p{Han}"},
                                                                {"\\p{^L}", "\\p{^L}"}, {"\\pL", "\\pL"},
                                                                {"(?m:a)", "(?m:"},     {"(?<n>a)", "(?<n"},
                                                                {"a{1,3}+", "repeat"},  {"a{,3}", "{ that"},
                                                                {"a**", "repeat"},      {"[\\s-x]", "range"},
                                                                {"([", "[ without ]"},  {"(a", "missing closing"},
                                                                {"a{99999}", "{ that"}, {"x\\", "\\"},
                                                                {"[]a]", "[]"},         {"*a", "valid split pattern"}};
  for (const auto& [pattern, part] : bad) {
    INFO(pattern);
    CHECK(says(refusal(pattern), part));
  }
  CHECK(says(refusal(std::string(20'000, 'a')), "10,000"));
}

TEST_CASE("BPE split patterns: white space and newer letters match as in Oniguruma") {
  const auto matches = [](const char* pattern, const std::string& text) {
    const SplitPattern split(pattern, "x");
    SplitPattern::Scratch scratch;
    std::size_t begin = 0, end = 0;
    return split.find(text, 0, scratch, begin, end) && begin == 0 && end == text.size();
  };
  for (const char* space : {" ", "\t", "\v", "\u0085", "\u00a0", "\u1680", "\u2003", "\u2028", "\u3000"}) {
    CHECK(matches("\\s", space));
    CHECK_FALSE(matches("\\S", space));
    CHECK_FALSE(matches("[^\\s]", space));
  }
  for (const char* other : {"\u180e", "\u200b", "\ufeff", "a"}) {
    CHECK(matches("\\S", other));
    CHECK_FALSE(matches("[\\s]", other));
  }
  CHECK(matches("\\p{L}", "\U00031350"));     // Unicode 15
  CHECK(matches("[\\p{Nd}]", "\U00010d40"));  // Unicode 16
  CHECK_FALSE(matches("\\P{L}", "\U00031350"));
  CHECK_FALSE(matches("\\p{Lu}", "\U00031350"));
}
