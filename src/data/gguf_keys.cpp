#include "data/gguf_keys.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "data/chat_template.h"
#include "data/tokenizer/gguf_split.h"
#include "state/json.h"

namespace qrl::data {

namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string& part, const std::string& expected, const std::string& got) {
  base::fail_input("--gguf", expected + " in the tokenizer's " + part, got,
                   "export a Hugging Face folder (--out) and convert it with llama.cpp");
}

/// Returns a part of a tokenizer.json without what changes no id.
json without_offsets(json part) {
  if (part.is_object()) part.erase("trim_offsets");
  for (json& inner : part) {
    if (inner.is_structured()) inner = without_offsets(inner);
  }
  return part;
}

/// Returns the split whose parts are equal to the tokenizer's.
const GgufSplit& split_of(const json& root) {
  const json &model = root.at("model"), normalizer = root.value("normalizer", json());
  const json pre_tokenizer = without_offsets(root.value("pre_tokenizer", json()));
  const bool ignores_merges = model.value("ignore_merges", json(false)) == json(true);
  const auto found = std::ranges::find_if(gguf_splits(), [&](const GgufSplit& split) {
    return split.ignores_merges == ignores_merges && json(normalizer_json(split)) == normalizer &&
           without_offsets(json(pre_tokenizer_json(split))) == pre_tokenizer;
  });
  if (found != gguf_splits().end()) return *found;
  std::string words;
  for (const GgufSplit& split : gguf_splits()) words += (words.empty() ? "" : ", ") + std::string(split.word);
  refuse("pre_tokenizer, normalizer and ignore_merges", "those of a split that llama.cpp names: " + words, "others");
}

struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<std::int32_t> kinds;
};

/// Lists tokens by id. A token without an entry gets llama.cpp's name for padding.
Vocabulary vocabulary(const json& root, std::int64_t vocab_size) {
  Vocabulary all{std::vector<std::string>(static_cast<std::size_t>(vocab_size)),
                 std::vector<std::int32_t>(static_cast<std::size_t>(vocab_size), kUnusedToken)};
  const auto set = [&](std::int64_t id, const std::string& text, std::int32_t kind) {
    QRL_INVARIANT(id >= 0 && id < vocab_size, "gguf", "a token of the model", std::to_string(id));
    all.tokens[static_cast<std::size_t>(id)] = text;
    all.kinds[static_cast<std::size_t>(id)] = kind;
  };
  for (const auto& [text, id] : root.at("model").at("vocab").items()) set(id.get<std::int64_t>(), text, kNormalToken);
  for (const json& token : root.value("added_tokens", json::array())) {
    const std::string content = token.at("content");
    for (const char* flag : {"lstrip", "rstrip", "single_word"}) {
      if (token.value(flag, false))
        refuse("added token " + base::quoted(content), std::string("no ") + flag, std::string(flag) + ": true");
    }
    set(token.at("id"), content, token.value("special", false) ? kControlToken : kUserToken);
  }
  for (std::size_t id = 0; id < all.tokens.size(); ++id) {
    if (all.kinds[id] == kUnusedToken) all.tokens[id] = "[PAD" + std::to_string(id) + "]";
  }
  return all;
}

std::vector<std::string> merges_of(const json& root) {
  std::vector<std::string> merges;
  for (const json& merge : root.at("model").at("merges"))
    merges.push_back(merge.is_string() ? merge.get<std::string>()
                                       : merge.at(0).get<std::string>() + " " + merge.at(1).get<std::string>());
  return merges;
}

}  // namespace

std::vector<state::GgufKey> gguf_keys(const Tokenizer& tokenizer, std::int64_t vocab_size) {
  const std::string* text = tokenizer.file("tokenizer.json");
  QRL_INVARIANT(text != nullptr, "gguf", "a tokenizer with its tokenizer.json", "none");
  const json root = state::parse_json(*text, tokenizer.path_of("tokenizer.json"));
  if (root.at("model").value("type", "") != "BPE") refuse("model", "byte-level BPE", "another kind");
  if (tokenizer.prefix().size() > 1 || !tokenizer.suffix().empty())
    refuse("post_processor", "at most one token before a text and none behind it", "others");
  const GgufSplit& split = split_of(root);
  Vocabulary all = vocabulary(root, vocab_size);
  std::vector<state::GgufKey> keys;
  const auto add = [&](const std::string& name, state::GgufField value) {
    keys.push_back({kGgufPrefix + name, std::move(value)});
  };
  add("model", std::string("gpt2"));
  add("pre", std::string(split.word));
  add("tokens", std::move(all.tokens));
  add("token_type", std::move(all.kinds));
  add("merges", merges_of(root));
  if (!tokenizer.prefix().empty()) add("bos_token_id", static_cast<std::uint32_t>(tokenizer.prefix().front()));
  if (tokenizer.eos() >= 0) add("eos_token_id", static_cast<std::uint32_t>(tokenizer.eos()));
  add("add_bos_token", !tokenizer.prefix().empty());
  add("add_eos_token", false);
  if (std::string chat = own_template(tokenizer); !chat.empty())
    keys.push_back({"tokenizer.chat_template", std::move(chat)});
  return keys;
}

}  // namespace qrl::data
