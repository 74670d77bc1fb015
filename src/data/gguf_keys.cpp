#include "data/gguf_keys.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "data/chat_template.h"
#include "data/tokenizer/gguf_scores.h"
#include "data/tokenizer/gguf_split.h"
#include "data/tokenizer/spaces.h"
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

/// Returns the kind of an added token. Writes its text for llama.cpp, which looks for it before it spells spaces "▁".
std::int32_t added_kind(const json& token, const json& root, const SpaceRules* spaces, std::string& text) {
  for (const char* flag : {"lstrip", "rstrip", "single_word"}) {
    if (token.value(flag, false))
      refuse("added token " + base::quoted(text), std::string("no ") + flag, std::string(flag) + ": true");
  }
  const bool is_special = token.value("special", false), is_normalized = token.value("normalized", false);
  if (spaces == nullptr) return is_special ? kControlToken : kUserToken;
  if (is_normalized && spaces->prefix != SpaceRules::Prefix::none)
    refuse("added token " + base::quoted(text), "normalized: false", "true, beside Prepend");
  if (root.at("model").value("unk_token", json()) == text) return kUnknownToken;
  if (is_special) return kControlToken;
  const bool has_mark = text.find(kSpaceMark) != std::string::npos;
  if (has_mark && !is_normalized) return kNormalToken;  // no text has it: merges make it
  text = with_spaces(text);
  return kUserToken;
}

/// Lists tokens by id. A token without an entry gets llama.cpp's name for padding. `spaces`: null for byte-level BPE.
SpacedTokens vocabulary(const json& root, std::int64_t vocab_size, const SpaceRules* spaces) {
  SpacedTokens all{std::vector<std::string>(static_cast<std::size_t>(vocab_size)),
                   std::vector<std::int32_t>(static_cast<std::size_t>(vocab_size), kUnusedToken)};
  const auto set = [&](std::int64_t id, const std::string& text, std::int32_t kind) {
    QRL_INVARIANT(id >= 0 && id < vocab_size, "gguf", "a token of the model", std::to_string(id));
    all.texts[static_cast<std::size_t>(id)] = text;
    all.kinds[static_cast<std::size_t>(id)] = kind;
  };
  for (const auto& [text, id] : root.at("model").at("vocab").items())
    set(id.get<std::int64_t>(), text, spaces != nullptr && byte_of_token(text) ? kByteToken : kNormalToken);
  for (const json& token : root.value("added_tokens", json::array())) {
    std::string text = token.at("content");
    const std::int32_t kind = added_kind(token, root, spaces, text);
    set(token.at("id"), text, kind);
  }
  for (std::size_t id = 0; id < all.texts.size(); ++id) {
    if (all.kinds[id] == kUnusedToken) all.texts[id] = "[PAD" + std::to_string(id) + "]";
  }
  return all;
}

std::vector<TokenPair> merges_of(const json& root) {
  std::vector<TokenPair> merges;
  for (const json& merge : root.at("model").at("merges")) {
    if (!merge.is_string()) {
      merges.emplace_back(merge.at(0), merge.at(1));
      continue;
    }
    const std::string text = merge;
    const std::size_t space = text.find(' ');
    merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return merges;
}

class TokenizerKeys {
 public:
  TokenizerKeys(const json& root, std::int64_t vocab_size) : root_(root), vocab_size_(vocab_size) {}

  void add(const std::string& name, state::GgufField value) { keys_.push_back({kGgufPrefix + name, std::move(value)}); }

  void add_byte_level() {
    SpacedTokens all = vocabulary(root_, vocab_size_, nullptr);
    std::vector<std::string> merges;
    for (const auto& [left, right] : merges_of(root_)) merges.push_back(left + " " + right);
    add("model", std::string("gpt2"));
    add("pre", std::string(split_of(root_).word));
    add("tokens", std::move(all.texts));
    add("token_type", std::move(all.kinds));
    add("merges", std::move(merges));
  }

  /// Adds SentencePiece's BPE, whose merges become scores.
  void add_spaced(const SpaceRules& spaces) {
    require_llama_cpps_spaces(spaces);
    SpacedTokens all = vocabulary(root_, vocab_size_, &spaces);
    MergeScores merges = scores_of_merges(all, merges_of(root_));
    if (!merges.fault.empty()) refuse("merges", "those that scores of tokens express", merges.fault);
    add("model", std::string("llama"));
    add("pre", std::string("default"));
    add("scores", std::move(merges.scores));
    const auto unknown = std::ranges::find(all.kinds, std::int32_t{kUnknownToken});
    if (unknown != all.kinds.end()) add("unknown_token_id", static_cast<std::uint32_t>(unknown - all.kinds.begin()));
    add("tokens", std::move(all.texts));
    add("token_type", std::move(all.kinds));
    add("add_space_prefix", spaces.prefix == SpaceRules::Prefix::always);
  }

  std::vector<state::GgufKey> take() { return std::move(keys_); }

 private:
  /// Refuses rules for spaces and bytes other than llama.cpp's.
  void require_llama_cpps_spaces(const SpaceRules& spaces) const {
    using Prefix = SpaceRules::Prefix;
    using Strip = SpaceRules::Strip;
    if (!spaces.char_map.empty() || spaces.strips_end || spaces.squeezes_spaces)
      refuse("normalizer", "Prepend and Replace only", "others");
    if (spaces.prefix == Prefix::first || spaces.prefix == Prefix::each)
      refuse("pre_tokenizer", "a space before every part of a text (Prepend) or before none",
             spaces.prefix == Prefix::first ? "Metaspace with prepend_scheme first" : "Metaspace with another scheme");
    if (spaces.splits) refuse("pre_tokenizer", "split: false", "split: true");
    if (spaces.strip != (spaces.prefix == Prefix::always ? Strip::one : Strip::none))
      refuse("decoder", spaces.prefix == Prefix::always ? "Strip of one space" : "no Strip", "others");
    const json& model = root_.at("model");
    if (model.value("byte_fallback", json()) != true) refuse("model", "byte_fallback: true", "false");
    if (model.value("ignore_merges", json()) == true) refuse("model", "ignore_merges: false", "true");
  }

  const json& root_;
  std::int64_t vocab_size_;
  std::vector<state::GgufKey> keys_;
};

}  // namespace

std::vector<state::GgufKey> gguf_keys(const Tokenizer& tokenizer, std::int64_t vocab_size) {
  const std::string* text = tokenizer.file("tokenizer.json");
  QRL_INVARIANT(text != nullptr, "gguf", "a tokenizer with its tokenizer.json", "none");
  const std::string where = tokenizer.path_of("tokenizer.json");
  const json root = state::parse_json(*text, where);
  const std::string type = root.at("model").value("type", "");
  if (type != "BPE") refuse("model", "BPE", base::quoted(type));
  if (tokenizer.prefix().size() > 1 || !tokenizer.suffix().empty())
    refuse("post_processor", "at most one token before a text and none behind it", "others");
  TokenizerKeys keys(root, vocab_size);
  if (const std::optional<SpaceRules> spaces = read_space_rules(root, where)) keys.add_spaced(*spaces);
  else keys.add_byte_level();
  if (!tokenizer.prefix().empty()) keys.add("bos_token_id", static_cast<std::uint32_t>(tokenizer.prefix().front()));
  if (tokenizer.eos() >= 0) keys.add("eos_token_id", static_cast<std::uint32_t>(tokenizer.eos()));
  keys.add("add_bos_token", !tokenizer.prefix().empty());
  keys.add("add_eos_token", false);
  std::vector<state::GgufKey> all = keys.take();
  if (std::string chat = own_template(tokenizer); !chat.empty())
    all.push_back({"tokenizer.chat_template", std::move(chat)});
  return all;
}

}  // namespace qrl::data
