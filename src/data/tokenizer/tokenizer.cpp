#include "data/tokenizer.h"

#include <algorithm>

#include "base/log.h"
#include "base/text.h"
#include "data/tokenizer/parts.h"
#include "data/tokenizer/unicode.h"

namespace qrl::data {

using types::TokenId;

namespace {

std::size_t valid_bytes(std::string_view text) {
  std::size_t at = 0;
  for (std::size_t length = 1; at < text.size() && length > 0; at += length)
    length = base::character_bytes(text.substr(at));
  return at;
}

class Encoding {
 public:
  explicit Encoding(const TokenizerParts& parts) : parts_(parts) {}

  std::vector<TokenId> run(std::string_view text, const std::vector<TextRange>& trusted) {
    ids_.reserve(text.size() / 3 + 8);
    for (const auto& part : parts_.added_before_nfc.split(text, trusted)) {
      if (part.id >= 0) ids_.push_back(part.id);
      else normalized(text, part.range, trusted);
    }
    return std::move(ids_);
  }

 private:
  void normalized(std::string_view text, TextRange range, const std::vector<TextRange>& trusted) {
    std::vector<TextRange> inside;
    for (const TextRange& part : trusted) {
      const TextRange cut{std::max(part.begin, range.begin), std::min(part.end, range.end)};
      if (cut.begin < cut.end) inside.push_back({cut.begin - range.begin, cut.end - range.begin});
    }
    begins_text_ = range.begin == 0;
    text = text.substr(range.begin, range.end - range.begin);
    const bool is_valid = base::is_utf8(text);
    if (!parts_.spaces && (!parts_.nfc || (is_valid && is_nfc(text)))) return added(text, inside, is_valid);
    if (parts_.spaces && (parts_.char_map || parts_.spaces->strips_end || parts_.spaces->squeezes_spaces))
      return added_in_whole(text, inside, is_valid);
    // Normalizes trusted ranges and the text between them separately, so that their bounds are known.
    std::string result = parts_.spaces && parts_.spaces->prefix == SpaceRules::Prefix::always ? " " : "";
    std::vector<TextRange> moved;
    std::size_t done = 0;
    for (const TextRange& part : inside) {
      append(text.substr(done, part.begin - done), result);
      const std::size_t begin = part.begin == 0 ? 0 : result.size();
      append(text.substr(part.begin, part.end - part.begin), result);
      moved.push_back({begin, result.size()});
      done = part.end;
    }
    append(text.substr(done), result);
    added(result, moved, is_valid);
  }
  /// Normalizes a segment as one text, since normalizers may join what is on both sides of a range's bound.
  void added_in_whole(std::string_view text, const std::vector<TextRange>& trusted, bool is_valid) {
    const std::string prefix = parts_.spaces->prefix == SpaceRules::Prefix::always ? " " : "";
    const std::string result = prefix + spaced_text(parts_, text);
    const auto moved = [&](std::size_t at) {
      if (at == 0) return std::size_t{0};
      return at == text.size()
                 ? result.size()
                 : std::min(result.size(), prefix.size() + spaced_text(parts_, text.substr(0, at)).size());
    };
    std::vector<TextRange> ranges;
    for (const TextRange& range : trusted) ranges.push_back({moved(range.begin), moved(range.end)});
    added(result, ranges, is_valid);
  }
  void append(std::string_view text, std::string& result) const {
    if (parts_.spaces) result += with_spaces(text);
    else append_nfc(text, result);
  }
  static void append_nfc(std::string_view text, std::string& result) {
    while (!text.empty()) {
      const std::size_t valid = valid_bytes(text);
      result += to_nfc(text.substr(0, valid));
      text.remove_prefix(valid);
      if (text.empty()) return;
      result += text.front();
      text.remove_prefix(1);
    }
  }

  void added(std::string_view text, const std::vector<TextRange>& trusted, bool is_valid) {
    for (const auto& part : parts_.added_after_nfc.split(text, trusted)) {
      if (part.id >= 0) ids_.push_back(part.id);
      else spaced(text.substr(part.range.begin, part.range.end - part.range.begin), part.range.begin == 0, is_valid);
    }
  }
  /// Adds the space that Metaspace puts before a segment of text.
  void spaced(std::string_view text, bool begins_segment, bool is_valid) {
    const auto prefix = parts_.spaces ? parts_.spaces->prefix : SpaceRules::Prefix::none;
    const bool needs_space =
        prefix == SpaceRules::Prefix::each || (prefix == SpaceRules::Prefix::first && begins_text_ && begins_segment);
    if (needs_space && text.front() != ' ') plain(" " + std::string(text), is_valid);
    else plain(text, is_valid);
  }
  void plain(std::string_view text, bool is_valid) {
    if (is_valid) return cut(text, 0);
    while (!text.empty()) {
      const std::size_t valid = valid_bytes(text);
      cut(text.substr(0, valid), 0);
      text.remove_prefix(valid);
      if (text.empty()) return;
      parts_.encode(text.substr(0, 1), ids_);
      text.remove_prefix(1);
    }
  }

  /// Applies split steps from `step` on, then merges. Matches follow Oniguruma: an empty match counts unless it is at
  /// the end of the previous match.
  void cut(std::string_view text, std::size_t step) {
    if (parts_.spaces && parts_.spaces->splits) return cut_at_spaces(text);
    if (step == parts_.steps.size()) return parts_.encode(text, ids_);
    const SplitStep& split = parts_.steps[step];
    constexpr auto kNone = static_cast<std::size_t>(-1);
    std::size_t done = 0, last_end = kNone, begin = 0, end = 0;
    for (std::size_t from = 0; from <= text.size() && split.pattern.find(text, from, scratch_, begin, end);) {
      if (begin == end && end == last_end) {
        ++from;
        while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xc0U) == 0x80U) ++from;
        continue;
      }
      if (split.keep_gaps && done < begin) cut(text.substr(done, begin - done), step + 1);
      if (begin < end) cut(text.substr(begin, end - begin), step + 1);
      done = from = last_end = end;
    }
    if (split.keep_gaps && done < text.size()) cut(text.substr(done), step + 1);
  }

  void cut_at_spaces(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find(' ', 1), text.size());
      parts_.encode(text.substr(0, end), ids_);
      text.remove_prefix(end);
    }
  }

  const TokenizerParts& parts_;
  bool begins_text_ = false;  ///< whether the current segment between added tokens begins the text
  SplitPattern::Scratch scratch_;
  std::vector<TokenId> ids_;
};

std::size_t character_bytes(unsigned char lead) {
  return lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
}

bool begins_character(std::string_view bytes) {
  const std::size_t length = character_bytes(static_cast<unsigned char>(bytes.front()));
  if (length < bytes.size()) return false;
  std::string whole(bytes);
  if (bytes.size() == 1 && length > 1) whole += bytes == "\xe0" || bytes == "\xf0" ? '\xa0' : '\x80';
  whole.resize(length, '\x80');
  return base::is_utf8(whole);
}

/// Returns a text's first token without the spaces that decoding removes.
std::string first_text(std::string_view bytes, SpaceRules::Strip strip) {
  std::string text(bytes);
  if (strip == SpaceRules::Strip::first_token) std::erase(text, ' ');
  if (strip == SpaceRules::Strip::one && text.front() == ' ') text.erase(0, 1);
  return text;
}

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

}  // namespace

std::string spaced_text(const TokenizerParts& parts, std::string_view text) {
  std::string result = parts.char_map ? parts.char_map->normalized(text) : std::string(text);
  if (parts.spaces->strips_end) result.resize(result.size() - trailing_space_bytes(result));
  if (parts.spaces->squeezes_spaces) {
    const auto both_are_spaces = [](char a, char b) { return a == ' ' && b == ' '; };
    result.erase(std::unique(result.begin(), result.end(), both_are_spaces), result.end());
  }
  return with_spaces(result);
}

std::vector<TokenId> Tokenizer::encode(std::string_view text) const { return Encoding(*parts_).run(text, {}); }

std::vector<TokenId> Tokenizer::encode_trusted(std::string_view text) const {
  return Encoding(*parts_).run(text, {{0, text.size()}});
}

std::vector<TokenId> Tokenizer::encode(std::span<const TextPart> parts) const {
  std::string text;
  std::vector<TextRange> trusted;
  for (const TextPart& part : parts) {
    const TextRange range{text.size(), text.size() + part.text.size()};
    text += part.text;
    if (!part.parse_added_tokens || part.text.empty()) continue;
    if (!trusted.empty() && trusted.back().end == range.begin) trusted.back().end = range.end;
    else trusted.push_back(range);
  }
  return Encoding(*parts_).run(text, trusted);
}

std::int64_t Tokenizer::unencodable_bytes(std::string_view text) const {
  if (parts_->unigram) return parts_->unigram->unencodable_bytes(spaced_text(*parts_, text));
  return parts_->bpe->unencodable_bytes(parts_->spaces ? spaced_text(*parts_, text) : text);
}

bool Tokenizer::lacks_bytes() const {
  return parts_->unigram ? !parts_->unigram->has_all_bytes() : !parts_->bpe->has_all_bytes();
}

void Tokenizer::warn_of_unencodable(const std::string& where, std::int64_t num_bytes) const {
  if (num_bytes == 0) return;
  const TokenId unknown = parts_->unigram ? parts_->unigram->unknown() : parts_->bpe->unknown();
  base::log_warning(where + ": " + std::to_string(num_bytes) + (num_bytes == 1 ? " byte" : " bytes") +
                    " without a token in the vocabulary " + (num_bytes == 1 ? "is " : "are ") +
                    (unknown < 0 ? "left out" : "read as token " + std::to_string(unknown)) +
                    ", as in the tokenizers library");
}

const std::vector<TokenId>& Tokenizer::prefix() const { return parts_->prefix; }
const std::vector<TokenId>& Tokenizer::suffix() const { return parts_->suffix; }
TokenId Tokenizer::eos() const { return parts_->eos; }
std::int64_t Tokenizer::vocab_size() const { return static_cast<std::int64_t>(parts_->id_to_bytes.size()); }

TokenId Tokenizer::added_token_id(std::string_view text) const {
  const auto found = parts_->added_ids.find(text);
  return found == parts_->added_ids.end() ? -1 : found->second;
}

std::string_view Tokenizer::bytes_of(TokenId token, bool spell_special) const {
  if (token < 0 || token >= vocab_size()) return {};
  const auto id = static_cast<std::size_t>(token);
  return parts_->is_special[id] && !spell_special ? std::string_view() : parts_->id_to_bytes[id];
}

std::string Tokenizer::decode(std::span<const TokenId> tokens) const {
  std::string text;
  bool is_first = parts_->spaces.has_value();
  for (const TokenId id : tokens) {
    const std::string_view bytes = bytes_of(id, false);
    if (is_first && !bytes.empty()) {
      is_first = false;
      text = first_text(bytes, parts_->spaces->strip);
    } else {
      text += bytes;
    }
  }
  return text;
}

std::string StreamDecoder::push(TokenId token) {
  std::string whole;
  for (const char byte : tokenizer_.bytes_of(token, spell_special_)) {
    pending_ += byte;
    if (!begins_character(pending_)) {
      // Writes one U+FFFD for the incomplete character, because this byte begins a new one.
      const bool had_beginning = pending_.size() > 1;
      pending_.assign(1, byte);
      whole += kReplacement;
      if (!had_beginning || !begins_character(pending_)) {
        if (had_beginning) whole += kReplacement;
        pending_.clear();
      }
    }
    if (!pending_.empty() && pending_.size() == character_bytes(static_cast<unsigned char>(pending_.front()))) {
      whole += pending_;
      pending_.clear();
    }
  }
  return whole;
}

std::string StreamDecoder::finish() {
  const bool incomplete = !pending_.empty();
  pending_.clear();
  return incomplete ? std::string(kReplacement) : std::string();
}

}  // namespace qrl::data
