// Reads tokenizer.json. For an unsupported setting that would change ids, throws an input error that names it.
#include <algorithm>
#include <bitset>
#include <limits>
#include <unordered_map>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/parts.h"
#include "data/tokenizer/unicode.h"
#include "state/json.h"

namespace qrl::data {

using nlohmann::json;
using types::TokenId;

namespace {

constexpr int kMaxDepth = 16;
constexpr const char* kUseByteLevel =
    "use a tokenizer like that of GPT-2, Qwen2/3, Llama 3 or Phi-2 (byte-level BPE, with NFC or no normalizer), or "
    "like "
    "that of Llama 2, Mistral or Phi-3 (BPE with spaces spelled ▁)";
/// GPT-2's pattern (Radford et al. 2019, encoder.py), which ByteLevel applies with use_regex.
constexpr const char* kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

[[noreturn]] void refuse(const std::string& where, const std::string& setting) {
  base::fail_input(where, "", setting + " is not supported by this version", kUseByteLevel);
}

class TokenizerReader {
 public:
  TokenizerReader(const json& root, const std::string& where) : root_(root), where_(where) {}

  TokenizerParts read(const std::string& eos_token) {
    QRL_REQUIRE(root_.is_object(), where_, "a JSON object", root_.type_name());
    only_keys(root_, "",
              {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
               "decoder", "model"});
    // Ignores `truncation` and `padding`, like transformers.
    QRL_REQUIRE(text_of(root_, "version") == "1.0", where_, "version \"1.0\"", base::quoted(text_of(root_, "version")));
    result_.spaces = read_space_rules(root_, where_);
    if (result_.spaces && !result_.spaces->char_map.empty())
      result_.char_map.emplace(result_.spaces->char_map, where_ + ": normalizer");
    const json& model = read_model();
    if (!result_.spaces) {
      read_normalizer(field(root_, "normalizer"));
      read_pre_tokenizers(field(root_, "pre_tokenizer"));
      check_byte_level(field(root_, "decoder"), "decoder");
    }
    read_added();
    read_post_processor(field(root_, "post_processor"));
    set_bytes();
    if (is_unigram_) make_unigram(model);
    else make_bpe(model);
    if (!eos_token.empty()) {
      const auto eos = result_.added_ids.find(eos_token);
      QRL_REQUIRE(eos != result_.added_ids.end() && result_.is_special[static_cast<std::size_t>(eos->second)], where_,
                  "the end token " + base::quoted(eos_token) + " among the special added tokens", "no such token");
      result_.eos = eos->second;
    }
    return std::move(result_);
  }

 private:
  static constexpr Bpe::ByteIds no_ids() {
    Bpe::ByteIds ids{};
    ids.fill(-1);
    return ids;
  }
  const json& field(const json& object, const char* name) const {
    static const json kNull;
    const auto found = object.find(name);
    return found == object.end() ? kNull : *found;
  }
  std::string text_of(const json& object, const char* name) const {
    const json& value = field(object, name);
    QRL_REQUIRE(value.is_string(), where_, std::string("`") + name + "` to be a string", value.type_name());
    return value.get<std::string>();
  }
  bool flag_of(const json& object, const char* name, bool if_absent = false) const {
    const json& value = field(object, name);
    QRL_REQUIRE(value.is_boolean() || value.is_null(), where_, std::string("`") + name + "` to be true or false",
                value.type_name());
    return value.is_boolean() ? value.get<bool>() : if_absent;
  }
  TokenId id_of(const json& value, const std::string& token) const {
    QRL_REQUIRE(
        value.is_number_unsigned() && value.get<std::uint64_t>() < std::uint64_t{std::numeric_limits<TokenId>::max()},
        where_, "token " + base::quoted(token) + " to have an id from 0 to 2^31 - 2", base::quoted(value.dump()));
    return static_cast<TokenId>(value.get<std::uint64_t>());
  }
  void only_keys(const json& object, const std::string& of, std::initializer_list<std::string_view> known) const {
    for (const auto& [name, value] : object.items()) {
      if (std::ranges::find(known, name) == known.end()) refuse(where_, of + "setting " + base::quoted(name));
    }
  }
  std::string type_of(const json& part, const std::string& name) const {
    QRL_REQUIRE(part.is_object(), where_, "an object `" + name + "`", part.type_name());
    return text_of(part, "type");
  }
  /// Returns the members of a Sequence, or the part itself; null gives an empty list.
  std::vector<json> sequence(const json& part, const std::string& name, const char* members) const {
    if (part.is_null()) return {};
    if (type_of(part, name) != "Sequence") return {part};
    const json& list = field(part, members);
    QRL_REQUIRE(list.is_array(), where_, name + "." + members + " to be an array", list.type_name());
    return list.get<std::vector<json>>();
  }

  const json& read_model() {
    const json& model = field(root_, "model");
    QRL_REQUIRE(model.is_object(), where_, "an object `model`", model.type_name());
    const std::string type = text_of(model, "type");
    is_unigram_ = type == "Unigram" && result_.spaces;
    if (is_unigram_) {
      only_keys(model, "model ", {"type", "unk_id", "vocab", "byte_fallback"});
      read_scored_vocab(field(model, "vocab"));
      return model;
    }
    if (type != "BPE") refuse(where_, "model type " + base::quoted(type));
    only_keys(model, "model ",
              {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
               "byte_fallback", "ignore_merges", "vocab", "merges"});
    if (flag_of(model, "byte_fallback") && !result_.spaces) refuse(where_, "model.byte_fallback");
    const json& dropout = field(model, "dropout");
    if (!dropout.is_null() && dropout != 0) refuse(where_, "model.dropout");
    for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (!field(model, name).is_null() && !text_of(model, name).empty()) refuse(where_, std::string("model.") + name);
    }
    read_vocab(field(model, "vocab"));
    return model;
  }

  void read_vocab(const json& vocab) {
    QRL_REQUIRE(vocab.is_object() && !vocab.empty(), where_, "model.vocab to be an object with entries",
                vocab.type_name());
    vocab_.resize(vocab.size());
    ids_.reserve(vocab.size());
    for (const auto& [token, value] : vocab.get_ref<const json::object_t&>()) {
      const auto id = static_cast<std::size_t>(id_of(value, token));
      QRL_REQUIRE(
          id < vocab_.size() && vocab_[id].data() == nullptr, where_,
          "the " + std::to_string(vocab_.size()) + " ids of model.vocab to be 0, 1, 2, … without gaps or repeats",
          base::quoted(token) + " with id " + std::to_string(id));
      vocab_[id] = token;
      ids_.emplace(token, static_cast<TokenId>(id));
    }
  }

  /// Reads a Unigram model's list of tokens and scores.
  void read_scored_vocab(const json& vocab) {
    QRL_REQUIRE(vocab.is_array() && !vocab.empty(), where_, "model.vocab to be a list of [token, score]",
                vocab.type_name());
    for (const json& entry : vocab) {
      QRL_REQUIRE(entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number(), where_,
                  "model.vocab to be a list of [token, score]", base::quoted(entry.dump()));
      ids_.insert_or_assign(entry[0].get_ref<const std::string&>(), static_cast<TokenId>(vocab_.size()));
      vocab_.push_back(entry[0].get_ref<const std::string&>());
    }
  }

  void read_normalizer(const json& part) {
    for (const json& step : sequence(part, "normalizer", "normalizers")) {
      const std::string type = type_of(step, "normalizer");
      if (type != "NFC") refuse(where_, "normalizer " + base::quoted(type));
      result_.nfc = true;
    }
  }

  void read_pre_tokenizers(const json& part) {
    const std::vector<json> steps = sequence(part, "pre_tokenizer", "pretokenizers");
    const std::string last = steps.empty() ? "none" : base::quoted(type_of(steps.back(), "pre_tokenizer"));
    if (last != "\"ByteLevel\"") refuse(where_, "a pre_tokenizer that ends in " + last + ", not in ByteLevel,");
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const std::string type = type_of(steps[i], "pre_tokenizer");
      if (type == "Split") {
        read_split(steps[i]);
      } else if (type == "Digits") {
        only_keys(steps[i], "pre_tokenizer Digits ", {"type", "individual_digits"});
        add_step(flag_of(steps[i], "individual_digits") ? "\\p{N}" : "\\p{N}+", true);
      } else if (type == "ByteLevel" && i + 1 == steps.size()) {
        check_byte_level(steps[i], "pre_tokenizer");
        if (flag_of(steps[i], "add_prefix_space")) refuse(where_, "pre_tokenizer.add_prefix_space");
        if (flag_of(steps[i], "use_regex", true)) add_step(kGpt2Pattern, true);
      } else {
        refuse(where_, "pre_tokenizer " + base::quoted(type));
      }
    }
  }
  void read_split(const json& step) {
    only_keys(step, "pre_tokenizer Split ", {"type", "pattern", "behavior", "invert"});
    const json& pattern = field(step, "pattern");
    QRL_REQUIRE(pattern.is_object() && pattern.size() == 1, where_, "a split pattern {\"Regex\": …} or {\"String\": …}",
                pattern.type_name());
    only_keys(pattern, "split pattern ", {"Regex", "String"});
    const bool is_regex = pattern.contains("Regex");
    const std::string text = text_of(pattern, is_regex ? "Regex" : "String");
    const std::string behavior = text_of(step, "behavior");
    const bool invert = flag_of(step, "invert");
    // Matches are pieces in both supported cases. "Isolated" also keeps the text between matches; inverted "Removed"
    // drops it.
    const bool isolated = behavior == "Isolated" && !invert;
    if (!isolated && !(behavior == "Removed" && invert))
      refuse(where_, "Split with behavior " + base::quoted(behavior) + (invert ? " inverted" : ""));
    add_step(is_regex ? text : escaped_pattern(text), isolated);
  }
  void add_step(const std::string& pattern, bool keep_gaps) {
    result_.steps.push_back({SplitPattern(pattern, where_), keep_gaps});
  }

  void check_byte_level(const json& part, const std::string& name) const {
    const std::string type = type_of(part, name);
    if (type != "ByteLevel") refuse(where_, name + " " + base::quoted(type));
    only_keys(part, name + " ", {"type", "add_prefix_space", "trim_offsets", "use_regex"});
    for (const char* flag : {"add_prefix_space", "trim_offsets", "use_regex"}) flag_of(part, flag);
  }

  /// Accepts ByteLevel, and templates that add special tokens before or after a text.
  void read_post_processor(const json& part) {
    for (const json& step : sequence(part, "post_processor", "processors")) {
      if (type_of(step, "post_processor") == "TemplateProcessing") read_template(step);
      else check_byte_level(step, "post_processor");
    }
  }
  void read_template(const json& step) {
    only_keys(step, "post_processor ", {"type", "single", "pair", "special_tokens"});
    const json& single = field(step, "single");
    QRL_REQUIRE(single.is_array(), where_, "post_processor.single to be an array", single.type_name());
    std::vector<TokenId> before, behind;
    bool seen = false;
    for (const json& piece : single) {
      QRL_REQUIRE(piece.is_object() && piece.size() == 1, where_,
                  "post_processor.single to hold {\"Sequence\": …} or {\"SpecialToken\": …}", piece.type_name());
      only_keys(piece, "post_processor.single ", {"Sequence", "SpecialToken"});
      if (piece.contains("Sequence")) {
        QRL_REQUIRE(!seen, where_, "post_processor.single to hold the text once", "twice");
        seen = true;
        continue;
      }
      QRL_REQUIRE(piece["SpecialToken"].is_object(), where_, "a SpecialToken to be an object",
                  piece["SpecialToken"].type_name());
      const std::string name = text_of(piece["SpecialToken"], "id");
      const auto added = result_.added_ids.find(name);
      QRL_REQUIRE(added != result_.added_ids.end(), where_, "post_processor tokens among the added tokens",
                  base::quoted(name));
      (seen ? behind : before).push_back(added->second);
    }
    QRL_REQUIRE(seen, where_, "post_processor.single to hold the text", "no text");
    result_.prefix.insert(result_.prefix.begin(), before.begin(), before.end());
    result_.suffix.insert(result_.suffix.end(), behind.begin(), behind.end());
  }

  void read_added() {
    const json& added_tokens = field(root_, "added_tokens");
    QRL_REQUIRE(added_tokens.is_array(), where_, "an array `added_tokens`", added_tokens.type_name());
    auto next_id = static_cast<TokenId>(vocab_.size());
    std::vector<AddedToken> before, after;
    for (const json& entry : added_tokens) {
      QRL_REQUIRE(entry.is_object(), where_, "added_tokens to hold objects", entry.type_name());
      only_keys(entry, "added token ", {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
      AddedToken added;
      added.text = text_of(entry, "content");
      added.special = flag_of(entry, "special");
      added.single_word = flag_of(entry, "single_word");
      added.lstrip = flag_of(entry, "lstrip");
      added.rstrip = flag_of(entry, "rstrip");
      added.normalized = flag_of(entry, "normalized");
      QRL_REQUIRE(!added.text.empty(), where_, "added tokens to have content", "an empty token");
      QRL_REQUIRE(!result_.added_ids.contains(added.text), where_, "each added token once",
                  base::quoted(added.text) + " twice");
      added.id = added_id(added.text, field(entry, "id"), next_id);
      result_.added_ids.emplace(added.text, added.id);
      added_.push_back(added);
      if (added.normalized) added.text = normalized(added.text);
      (added.normalized ? after : before).push_back(std::move(added));
    }
    num_ids_ = static_cast<std::size_t>(next_id);
    result_.added_before_nfc = AddedTokens(std::move(before));
    result_.added_after_nfc = AddedTokens(std::move(after));
  }
  /// Returns what the normalizer makes of an added token's text.
  std::string normalized(const std::string& text) const {
    if (!result_.spaces) return result_.nfc ? to_nfc(text) : text;
    return (result_.spaces->prefix == SpaceRules::Prefix::always ? " " : "") + spaced_text(result_, text);
  }
  /// Returns an added token's id. If the vocabulary has the token, returns the vocabulary's id, and logs a warning if
  /// id_in_file differs, like the tokenizers library. Otherwise requires id_in_file to be next_id, and increments
  /// next_id.
  TokenId added_id(const std::string& text, const json& id_in_file, TokenId& next_id) const {
    const auto entry = ids_.find(text);
    const TokenId want = entry == ids_.end() ? next_id++ : entry->second;
    const TokenId id = id_of(id_in_file, text);
    QRL_REQUIRE(id == want || entry != ids_.end(), where_,
                "added token " + base::quoted(text) + " to have id " + std::to_string(want), std::to_string(id));
    if (id != want) {
      base::log_warning(where_ + ": added token " + base::quoted(text) + " is token " + std::to_string(want) +
                        " of the vocabulary, not " + std::to_string(id));
    }
    return want;
  }

  void set_bytes() {
    result_.id_to_bytes.resize(num_ids_);
    result_.is_special.resize(num_ids_);
    is_added_.resize(num_ids_);
    is_unreachable_.resize(num_ids_);
    for (const AddedToken& added : added_) {
      const auto id = static_cast<std::size_t>(added.id);
      is_added_[id] = true;
      result_.is_special[id] = added.special;
      result_.id_to_bytes[id] = added.text;
    }
    if (result_.spaces) return set_spaced_bytes();
    std::bitset<256> has_byte;
    for (std::size_t id = 0; id < vocab_.size(); ++id) {
      auto spelled = bytes_of_spelling(vocab_[id]);
      // User text may become no added token, except single bytes that are not special.
      const bool is_byte = spelled && spelled->size() == 1 && !result_.is_special[id];
      QRL_REQUIRE(!spelled || spelled->size() != 1 || !result_.is_special[id], where_,
                  "special added tokens that are not single bytes of the vocabulary", base::quoted(vocab_[id]));
      if (is_byte) has_byte[static_cast<unsigned char>(spelled->front())] = true;
      if (is_added_[id] && !is_byte) continue;
      is_added_[id] = false;
      // Marks entries that are not spelled in the byte alphabet, because no text becomes such a token.
      is_unreachable_[id] = !spelled || spelled->empty();
      result_.id_to_bytes[id] = is_unreachable_[id] ? std::string(vocab_[id]) : std::move(*spelled);
    }
    num_missing_bytes_ = 256 - has_byte.count();
  }

  /// Sets the bytes of tokens whose spaces are spelled "▁". No text becomes "<0x0A>", or a token with a real space.
  void set_spaced_bytes() {
    for (std::size_t id = 0; id < vocab_.size(); ++id) {
      if (is_added_[id]) continue;
      const std::optional<unsigned char> byte = byte_of_token(vocab_[id]);
      if (byte) byte_ids_[*byte] = static_cast<TokenId>(id);
      is_unreachable_[id] = byte.has_value() || vocab_[id].empty() || vocab_[id].find(' ') != std::string_view::npos;
      result_.id_to_bytes[id] = byte ? std::string(1, static_cast<char>(*byte)) : with_spaces(vocab_[id]);
    }
  }

  /// Makes the BPE of characters, with the tokens of bytes if the file asks for them.
  void make_spaced_bpe(const json& model, std::vector<std::string> vocab, const std::vector<Merge>& merges) {
    const std::optional<Bpe::ByteIds> byte_ids = fallback_ids(model);
    result_.bpe.emplace(std::move(vocab), merges, flag_of(model, "ignore_merges"), unknown_of(model), byte_ids);
    result_.summary = "BPE of characters, " + std::to_string(vocab_.size()) + " tokens, " +
                      std::to_string(merges.size()) + " merges, " + std::to_string(added_.size()) + " added tokens, " +
                      (byte_ids ? "bytes for other characters" : "no tokens of bytes");
  }

  void make_unigram(const json& model) {
    std::vector<Unigram::Token> vocab(num_ids_);
    for (std::size_t id = 0; id < vocab_.size(); ++id) {
      vocab[id].score = field(model, "vocab")[id][1].get<double>();
      // Text may become no control token and no byte's.
      if (!is_added_[id] && !is_unreachable_[id]) vocab[id].bytes = result_.id_to_bytes[id];
    }
    vocab.resize(vocab_.size());
    const json& unknown = field(model, "unk_id");
    QRL_REQUIRE(unknown.is_number_unsigned() && unknown.get<std::uint64_t>() < vocab_.size(), where_,
                "model.unk_id to be a token of model.vocab", base::quoted(unknown.dump()));
    const std::optional<Bpe::ByteIds> byte_ids = fallback_ids(model);
    result_.unigram.emplace(std::move(vocab), unknown.get<TokenId>(), byte_ids);
    result_.summary = "Unigram, " + std::to_string(vocab_.size()) + " tokens, " + std::to_string(added_.size()) +
                      " added tokens, " + (result_.char_map ? "a map of characters, " : "") +
                      (byte_ids ? "bytes for other characters" : "no tokens of bytes");
  }

  /// Returns the tokens of bytes if the file asks for them.
  std::optional<Bpe::ByteIds> fallback_ids(const json& model) {
    if (!flag_of(model, "byte_fallback")) {
      num_missing_bytes_ = 256;
      return {};
    }
    const auto missing = std::ranges::find(byte_ids_, -1);
    QRL_REQUIRE(result_.spaces->joins_bytes, where_, "a decoder with ByteFallback, as model.byte_fallback is set",
                "none");
    QRL_REQUIRE(missing == byte_ids_.end(), where_, "tokens <0x00> to <0xFF> with model.byte_fallback",
                "no token for byte " + std::to_string(missing - byte_ids_.begin()));
    return byte_ids_;
  }

  void make_bpe(const json& model) {
    const json& list = field(model, "merges");
    QRL_REQUIRE(list.is_array(), where_, "model.merges to be an array", list.type_name());
    std::vector<Merge> merges;
    merges.reserve(list.size());
    std::string both;
    for (const json& entry : list) {
      const auto [left, right] = pair_of(entry, merges.size());
      both.assign(left).append(right);
      merges.push_back({merge_id(left, entry), merge_id(right, entry), merge_id(both, entry)});
      // User text may not become a control token. The library takes such a token before it merges.
      if (result_.spaces && is_added_[static_cast<std::size_t>(merges.back().merged)]) {
        merges.pop_back();
        continue;
      }
      QRL_REQUIRE(!is_added_[static_cast<std::size_t>(merges.back().merged)], where_,
                  "merges that do not produce an added token", base::quoted(entry.dump()));
    }
    std::vector<std::string> vocab = result_.id_to_bytes;
    for (std::size_t id = 0; id < num_ids_; ++id) {
      if (is_added_[id] || is_unreachable_[id]) vocab[id].clear();
    }
    if (result_.spaces) return make_spaced_bpe(model, std::move(vocab), merges);
    result_.bpe.emplace(std::move(vocab), merges, flag_of(model, "ignore_merges"), unknown_of(model));
    result_.summary =
        "byte-level BPE, " + std::to_string(vocab_.size()) + " tokens, " + std::to_string(merges.size()) + " merges, " +
        std::to_string(added_.size()) + " added tokens, " + (result_.nfc ? "NFC, " : "no normalizer, ") +
        std::to_string(result_.steps.size()) + (result_.steps.size() == 1 ? " split pattern" : " split patterns") +
        (num_missing_bytes_ == 0 ? std::string()
                                 : ", no token for " + std::to_string(num_missing_bytes_) + " of 256 bytes");
  }
  Bpe::Unknown unknown_of(const json& model) const {
    if (num_missing_bytes_ == 0 || field(model, "unk_token").is_null()) return {};
    const std::string token = text_of(model, "unk_token");
    const auto found = ids_.find(token);
    QRL_REQUIRE(found != ids_.end(), where_, "model.unk_token to be a token of model.vocab", base::quoted(token));
    return {found->second, flag_of(model, "fuse_unk")};
  }
  /// Reads a merge: two strings, or (before tokenizers 0.20) one string with a space between the tokens.
  std::pair<std::string_view, std::string_view> pair_of(const json& entry, std::size_t rank) const {
    if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string())
      return {entry[0].get_ref<const std::string&>(), entry[1].get_ref<const std::string&>()};
    const std::string_view text = entry.is_string() ? std::string_view(entry.get_ref<const std::string&>()) : "";
    const std::size_t space = text.find(' ');
    QRL_REQUIRE(space != std::string_view::npos && text.find(' ', space + 1) == std::string_view::npos, where_,
                "merge " + std::to_string(rank) + " to be two tokens, as [\"a\", \"b\"] or \"a b\"",
                base::quoted(entry.dump()));
    return {text.substr(0, space), text.substr(space + 1)};
  }
  TokenId merge_id(std::string_view token, const json& entry) const {
    const auto found = ids_.find(token);
    QRL_REQUIRE(found != ids_.end(), where_, "merges of vocabulary tokens into a vocabulary token",
                base::quoted(token) + " of " + base::quoted(entry.dump()) + ", which is not in the vocabulary");
    return found->second;
  }

  const json& root_;
  const std::string& where_;
  std::vector<std::string_view> vocab_;  ///< spellings of tokens in the file, by id
  std::unordered_map<std::string_view, TokenId> ids_;
  std::vector<AddedToken> added_;
  std::vector<bool> is_added_;  ///< whether an id is an added token; set_bytes clears this for single bytes
  std::vector<bool> is_unreachable_;
  Bpe::ByteIds byte_ids_ = no_ids();  ///< of tokens "<0x0A>"
  bool is_unigram_ = false;
  std::size_t num_ids_ = 0;
  std::size_t num_missing_bytes_ = 0;
  TokenizerParts result_;
};

}  // namespace

TokenizerParts read_tokenizer(std::string_view tokenizer_json, const std::string& eos_token, const std::string& where) {
  const json root = state::parse_json(tokenizer_json, where, kMaxDepth);
  return TokenizerReader(root, where).read(eos_token);
}

}  // namespace qrl::data
