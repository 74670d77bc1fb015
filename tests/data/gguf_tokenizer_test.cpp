// Tests tokenizers in GGUF files (scripts/golden/gguf_files.py) against the tokenizer.json files that they were made
// from.
#include <algorithm>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "data/gguf_keys.h"
#include "data/tokenizer.h"
#include "data/tokenizer/gguf.h"
#include "data/tokenizer/gguf_scores.h"
#include "data/tokenizer/gguf_split.h"
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

/// Returns normal tokens in the order in which their scores merge them.
std::vector<std::size_t> by_score(const state::GgufFile& file) {
  const auto& scores = *file.numbers("tokenizer.ggml.scores");
  const auto& kinds = *file.integers("tokenizer.ggml.token_type");
  std::vector<std::size_t> ids(scores.size());
  std::iota(ids.begin(), ids.end(), std::size_t{0});
  std::erase_if(ids, [&](std::size_t id) { return kinds[id] != data::kNormalToken; });
  std::ranges::stable_sort(ids, [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  return ids;
}

/// Returns the refusal to export a tokenizer of golden/gguf after a change.
std::string spaced_refusal(const std::string& name, const std::function<void(nlohmann::json&)>& change) {
  nlohmann::json root = nlohmann::json::parse(test::read_file(kGolden / "gguf" / (name + ".json")));
  change(root);
  const auto tokenizer = data::Tokenizer::parse(root.dump(), "", name);
  return test::refusal_of([&] { (void)data::gguf_keys(tokenizer, tokenizer.vocab_size()); });
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
  for (const std::string name : {"tokenizer_spaced", "tokenizer_spaced_gemma"}) {
    INFO(name);
    const data::Tokenizer tokenizer = data::Tokenizer::load(kGolden / "gguf" / (name + ".gguf"));
    CHECK(tokenizer.prefix() == Ids{1});
    CHECK(tokenizer.eos() == 2);
    require_ids(tokenizer, kGolden / "gguf" / (name + ".cases.jsonl"));
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

TEST_CASE("gguf tokenizer: an exported one of SentencePiece's kind has the tokens, kinds and order of gguf's file") {
  for (const std::string name : {"tokenizer_spaced", "tokenizer_spaced_gemma"}) {
    INFO(name);
    const state::GgufFile want(kGolden / "gguf" / (name + ".gguf"));
    const auto tokenizer = data::Tokenizer::load(kGolden / "gguf" / (name + ".json"));
    const test::TempDir dir;
    state::write_gguf(dir / "x.gguf", data::gguf_keys(tokenizer, tokenizer.vocab_size()), {}, {});
    const state::GgufFile got(dir / "x.gguf");
    CHECK(*got.texts("tokenizer.ggml.tokens") == *want.texts("tokenizer.ggml.tokens"));
    CHECK(*got.integers("tokenizer.ggml.token_type") == *want.integers("tokenizer.ggml.token_type"));
    for (const char* key : {"tokenizer.ggml.model", "tokenizer.ggml.pre"}) CHECK(*got.text(key) == *want.text(key));
    CHECK(*got.flag("tokenizer.ggml.add_space_prefix") == *want.flag("tokenizer.ggml.add_space_prefix"));
    CHECK(*got.integer("tokenizer.ggml.unknown_token_id") == 0);
    CHECK_FALSE(*got.flag("tokenizer.ggml.add_bos_token"));
    CHECK(by_score(got) == by_score(want));
    const data::Tokenizer again = data::Tokenizer::load(dir / "x.gguf");
    require_ids(again, kGolden / "gguf" / (name + ".cases.jsonl"));
    state::write_gguf(dir / "y.gguf", data::gguf_keys(again, again.vocab_size()), {}, {});
    CHECK(test::read_file(dir / "x.gguf") == test::read_file(dir / "y.gguf"));
  }
}

TEST_CASE("gguf tokenizer: one of SentencePiece's kind that llama.cpp would read otherwise is refused by the part") {
  using nlohmann::json;
  struct Change {
    const char *pointer, *part;
    json value;
  };
  for (const Change& change : std::vector<Change>{
           {"/pre_tokenizer",
            "prepend_scheme first",
            {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}, {"split", false}}},
           {"/pre_tokenizer",
            "another scheme",
            {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}, {"split", false}}},
           {"/pre_tokenizer",
            "split: true",
            {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "never"}, {"split", true}}},
           {"/normalizer",
            "in the tokenizer's normalizer",
            {{"type", "Sequence"},
             {"normalizers",
              {{{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}},
               {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}}},
           {"/decoder/decoders/3", "no Strip", {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}},
           {"/model/byte_fallback", "byte_fallback: true", false},
           {"/model/ignore_merges", "ignore_merges: false", true},
           {"/added_tokens/1/rstrip", "no rstrip", true}}) {
    INFO(change.pointer << " " << change.part);
    const auto set = [&](json& root) { root[json::json_pointer(change.pointer)] = change.value; };
    CHECK(test::says(spaced_refusal("tokenizer_spaced_gemma", set), change.part));
  }
  CHECK(test::says(spaced_refusal("tokenizer_spaced", [](json& root) { root["added_tokens"][1]["normalized"] = true; }),
                   "normalized: false"));
  CHECK(test::says(spaced_refusal("tokenizer_spaced", [](json& root) { root["decoder"]["decoders"].erase(3); }),
                   "Strip of one space"));
  const std::string merges = spaced_refusal("tokenizer_spaced_gemma", [](json& root) {
    auto& list = root["model"]["merges"];
    list.erase(list.size() - 1);
  });
  CHECK(test::says(merges, "no merge of"));
  const auto unigram = data::Tokenizer::load(kGolden / "tokenizer_bpe" / "spaced_unigram.json");
  CHECK(test::says(test::refusal_of([&] { (void)data::gguf_keys(unigram, unigram.vocab_size()); }), "\"Unigram\""));
}

TEST_CASE("scores of merges: they give the merges back, and a merge that they cannot express is named") {
  const auto kinds = [](std::size_t count) { return std::vector<std::int32_t>(count, data::kNormalToken); };
  const data::SpacedTokens tokens{{"a", "b", "c", "ab", "bc", "abc"}, kinds(6)};
  const std::vector<data::TokenPair> merges = {{"b", "c"}, {"a", "b"}, {"a", "bc"}, {"ab", "c"}};
  const data::MergeScores found = data::scores_of_merges(tokens, merges);
  CHECK(found.fault.empty());
  CHECK(found.scores == std::vector<float>{-3, -4, -5, -1, 0, -2});
  CHECK(data::merges_of_scores(tokens, std::vector<double>(found.scores.begin(), found.scores.end())) ==
        std::vector<data::TokenPair>{{"b", "c"}, {"a", "b"}, {"ab", "c"}, {"a", "bc"}});
  const auto fault = [&](std::vector<data::TokenPair> list, const data::SpacedTokens& of) {
    return data::scores_of_merges(of, list).fault;
  };
  CHECK(fault({{"b", "c"}, {"a", "b"}, {"a", "bc"}}, tokens) == "no merge of \"ab\" and \"c\"");
  CHECK(fault({{"b", "c"}, {"a", "bc"}, {"a", "b"}, {"ab", "c"}}, tokens) ==
        "a merge of \"ab\" and \"c\", apart from other merges into this token");
  // llama.cpp also joins a character without a token to its neighbor.
  CHECK(fault({}, {{"a", "aé"}, kinds(2)}) == "no merge of \"a\" and \"\\xc3\\xa9\"");
  CHECK(fault({{"a", "b"}}, {{"a", "b", "ab"}, {1, 1, data::kUserToken}}).empty());
  CHECK(fault({}, {{"a", "b", "ab"}, {1, data::kUserToken, 1}}).empty());
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
