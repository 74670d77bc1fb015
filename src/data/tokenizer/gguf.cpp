#include "data/tokenizer/gguf.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "data/tokenizer/gguf_scores.h"
#include "data/tokenizer/gguf_split.h"
#include "data/tokenizer/spaces.h"

namespace qrl::data {

namespace {

using Json = nlohmann::ordered_json;
using state::GgufFile;

std::string at(const GgufFile& file, const std::string& key) {
  return state::shown(file.path()) + ": " + base::quoted(kGgufPrefix + key);
}

/// Returns whether the file has SentencePiece's BPE, not a byte-level one. Throws an input error for another kind.
bool is_sentencepiece(const GgufFile& file) {
  const std::string* model = file.text(std::string(kGgufPrefix) + "model");
  QRL_REQUIRE(model != nullptr && (*model == "gpt2" || *model == "llama"), at(file, "model"),
              "\"gpt2\" (byte-level BPE) or \"llama\" (SentencePiece's BPE)",
              model == nullptr ? "no such key" : base::quoted(*model),
              "take a model with one of these tokenizers, or its Hugging Face folder");
  return *model == "llama";
}

const GgufSplit& split_of(const GgufFile& file) {
  const std::string* pre = file.text(std::string(kGgufPrefix) + "pre");
  std::string words;
  for (const GgufSplit& split : gguf_splits()) words += (words.empty() ? "" : ", ") + base::quoted(split.word);
  const auto found =
      std::ranges::find_if(gguf_splits(), [&](const GgufSplit& s) { return pre != nullptr && *pre == s.word; });
  QRL_REQUIRE(found != gguf_splits().end(), at(file, "pre"), words, pre == nullptr ? "no such key" : base::quoted(*pre),
              "take the Hugging Face folder of this model: its tokenizer.json says how text is split");
  return *found;
}

/// Returns the index of a special token, if the file names one; checks that the vocabulary has it.
const std::int64_t* special_id(const GgufFile& file, const char* key, std::size_t count) {
  const std::int64_t* id = file.integer(kGgufPrefix + std::string(key));
  QRL_REQUIRE(id == nullptr || (*id >= 0 && static_cast<std::uint64_t>(*id) < count), at(file, key),
              "a token below " + std::to_string(count), std::to_string(id == nullptr ? 0 : *id));
  return id;
}

Json added_tokens(const std::vector<std::string>& tokens, const std::vector<std::int64_t>& kinds) {
  Json added = Json::array();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (kinds[i] != kControlToken && kinds[i] != kUserToken && kinds[i] != kUnknownToken) continue;
    added.push_back({{"id", i},
                     {"content", tokens[i]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", kinds[i] != kUserToken}});
  }
  return added;
}

/// Returns the post-processor that puts the first token before a text, or null.
Json first_token(const std::string& token, std::int64_t id) {
  const Json special = {{"SpecialToken", {{"id", token}, {"type_id", 0}}}};
  const auto sequence = [](const char* name, int type) {
    return Json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  const Json second = {{"SpecialToken", {{"id", token}, {"type_id", 1}}}};
  return {{"type", "TemplateProcessing"},
          {"single", Json::array({special, sequence("A", 0)})},
          {"pair", Json::array({special, sequence("A", 0), second, sequence("B", 1)})},
          {"special_tokens", {{token, {{"id", token}, {"ids", {id}}, {"tokens", {token}}}}}}};
}

Json merges_of(const GgufFile& file) {
  const auto* merges = file.texts(std::string(kGgufPrefix) + "merges");
  QRL_REQUIRE(merges != nullptr, at(file, "merges"), "a list of merges", "no such key");
  Json pairs = Json::array();
  for (const std::string& merge : *merges) {
    const std::size_t space = merge.find(' ', 1);
    QRL_REQUIRE(space != std::string::npos && space + 1 < merge.size(), at(file, "merges"),
                "two tokens with a space between them", base::quoted(merge));
    pairs.push_back({merge.substr(0, space), merge.substr(space + 1)});
  }
  return pairs;
}

Json scored_merges(const GgufFile& file, const SpacedTokens& tokens) {
  const auto* scores = file.numbers(std::string(kGgufPrefix) + "scores");
  QRL_REQUIRE(scores != nullptr && scores->size() == tokens.texts.size(), at(file, "scores"),
              "a score for each of the tokens",
              scores == nullptr ? "no such key" : std::to_string(scores->size()) + " scores");
  Json pairs = Json::array();
  for (const auto& [left, right] : merges_of_scores(tokens, *scores)) pairs.push_back({left, right});
  return pairs;
}

/// Sets what differs between kinds: how text is cut, decoded and merged.
void add_sentencepiece(const GgufFile& file, const std::vector<std::string>& tokens,
                       const std::vector<std::int64_t>& kinds, Json& root) {
  const bool* prefix = file.flag(std::string(kGgufPrefix) + "add_space_prefix");
  const bool has_prefix = prefix == nullptr || *prefix;
  const auto replace = [](std::string_view from, std::string_view to) {
    return Json{{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
  };
  Json normalizers = Json::array(),
       decoders = {replace(kSpaceMark, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (has_prefix) {
    normalizers.push_back({{"type", "Prepend"}, {"prepend", kSpaceMark}});
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  normalizers.push_back(replace(" ", kSpaceMark));
  root["normalizer"] = {{"type", "Sequence"}, {"normalizers", normalizers}};
  root["pre_tokenizer"] = nullptr;
  root["decoder"] = {{"type", "Sequence"}, {"decoders", decoders}};
  root["model"]["fuse_unk"] = true;
  root["model"]["byte_fallback"] = true;
  if (const auto* unknown = special_id(file, "unknown_token_id", tokens.size()); unknown != nullptr)
    root["model"]["unk_token"] = tokens[static_cast<std::size_t>(*unknown)];
  root["model"]["merges"] = scored_merges(file, {tokens, {kinds.begin(), kinds.end()}});
}

void add_byte_level(const GgufFile& file, Json& root) {
  const GgufSplit& split = split_of(file);
  root["normalizer"] = normalizer_json(split);
  root["pre_tokenizer"] = pre_tokenizer_json(split);
  root["decoder"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  root["model"]["ignore_merges"] = split.ignores_merges;
  root["model"]["merges"] = merges_of(file);
}

}  // namespace

TokenizerFiles gguf_tokenizer(const GgufFile& file) {
  const bool is_spaced = is_sentencepiece(file);
  const auto* tokens = file.texts(std::string(kGgufPrefix) + "tokens");
  const auto* kinds = file.integers(std::string(kGgufPrefix) + "token_type");
  QRL_REQUIRE(tokens != nullptr && kinds != nullptr && tokens->size() == kinds->size() && !tokens->empty(),
              at(file, "token_type"), "a kind for each of the tokens",
              std::to_string(kinds == nullptr ? 0 : kinds->size()) + " kinds, " +
                  std::to_string(tokens == nullptr ? 0 : tokens->size()) + " tokens");
  Json vocab = Json::object();
  for (std::size_t i = 0; i < tokens->size(); ++i) {
    if ((*kinds)[i] == kUnusedToken && !is_spaced) continue;  // padding of the vocabulary
    state::add_member(vocab, (*tokens)[i], i);
  }
  const auto* first = special_id(file, "bos_token_id", tokens->size());
  const auto* end = special_id(file, "eos_token_id", tokens->size());
  const auto* padding = special_id(file, "padding_token_id", tokens->size());
  const bool* adds_first = file.flag(std::string(kGgufPrefix) + "add_bos_token");
  const auto text_of = [&](const std::int64_t* id) { return (*tokens)[static_cast<std::size_t>(*id)]; };
  Json root = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  root["added_tokens"] = added_tokens(*tokens, *kinds);
  for (const char* part : {"normalizer", "pre_tokenizer"}) root[part] = nullptr;
  root["post_processor"] = (adds_first == nullptr ? is_spaced : *adds_first) && first != nullptr
                               ? first_token(text_of(first), *first)
                               : Json();
  root["decoder"] = nullptr;
  root["model"] = {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", nullptr},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", false},
                   {"byte_fallback", false},
                   {"ignore_merges", false}};
  root["model"]["vocab"] = std::move(vocab);
  if (is_spaced) add_sentencepiece(file, *tokens, *kinds, root);
  else add_byte_level(file, root);
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  for (const auto& [key, id] : {std::pair{"bos_token", first}, {"eos_token", end}, {"pad_token", padding}})
    if (id != nullptr) config[key] = text_of(id);
  if (const std::string* chat = file.text("tokenizer.chat_template"); chat != nullptr) config["chat_template"] = *chat;
  return {root.dump() + "\n", config.dump(2) + "\n"};
}

}  // namespace qrl::data
