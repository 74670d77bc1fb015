#include "data/tokenizer/char_map.h"

#include <unicode/brkiter.h>
#include <unicode/unistr.h>

#include <bit>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/text.h"

namespace qrl::data {

namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::size_t kLongestCluster_bytes = 5;

std::string base64_decoded(std::string_view text, const std::string& where) {
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  while (text.ends_with('=')) text.remove_suffix(1);
  for (const char letter : text) {
    const std::size_t value = kAlphabet.find(letter);
    QRL_REQUIRE(value != std::string_view::npos, where, "precompiled_charsmap in base64",
                "the character " + base::quoted(std::string(1, letter)));
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xffU);
  }
  return bytes;
}

// Units of Darts' double array.
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1U) != 0; }
std::uint32_t label(std::uint32_t unit) { return unit & (1U << 31 | 0xffU); }
std::uint32_t offset(std::uint32_t unit) { return unit >> 10 << ((unit & 1U << 9) >> 6); }
std::uint32_t value(std::uint32_t unit) { return unit & 0x7fffffffU; }

/// Calls body with each extended grapheme cluster of a valid text.
template <class Body>
void visit_clusters(std::string_view text, const Body& body) {
  UErrorCode error = U_ZERO_ERROR;
  thread_local const std::unique_ptr<icu::BreakIterator> clusters(
      icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), error));
  QRL_INVARIANT(U_SUCCESS(error) != 0 && clusters != nullptr, "ICU", "its rules for grapheme clusters",
                u_errorName(error));
  const auto wide = icu::UnicodeString::fromUTF8({text.data(), static_cast<std::int32_t>(text.size())});
  clusters->setText(wide);
  std::string cluster;
  std::int32_t begin = clusters->first();
  for (std::int32_t end = clusters->next(); end != icu::BreakIterator::DONE; begin = end, end = clusters->next()) {
    cluster.clear();
    wide.tempSubStringBetween(begin, end).toUTF8String(cluster);
    body(std::string_view(cluster));
  }
}

}  // namespace

CharMap::CharMap(std::string_view base64, const std::string& where) {
  const std::string bytes = base64_decoded(base64, where);
  std::uint32_t trie_bytes = 0;
  static_assert(std::endian::native == std::endian::little);
  if (bytes.size() >= sizeof trie_bytes) std::memcpy(&trie_bytes, bytes.data(), sizeof trie_bytes);
  QRL_REQUIRE(trie_bytes > 0 && trie_bytes % 4 == 0 && bytes.size() - 4 >= trie_bytes, where,
              "precompiled_charsmap with a trie and texts", std::to_string(bytes.size()) + " bytes");
  trie_.resize(trie_bytes / 4);
  std::memcpy(trie_.data(), bytes.data() + 4, trie_bytes);
  texts_ = bytes.substr(4 + trie_bytes);
}

const char* CharMap::replacement(std::string_view text) const {
  std::uint32_t at = offset(trie_[0]);
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte == 0) return nullptr;
    at ^= byte;
    if (at >= trie_.size() || label(trie_[at]) != byte) return nullptr;
    const bool is_end = has_leaf(trie_[at]);
    at ^= offset(trie_[at]);
    if (!is_end) continue;
    const std::uint32_t from = at < trie_.size() ? value(trie_[at]) : 0xffffffffU;
    return from < texts_.size() ? texts_.c_str() + from : nullptr;
  }
  return nullptr;
}

std::string CharMap::normalized(std::string_view text) const {
  std::string result;
  const auto add_character = [&](std::string_view character) {
    if (const char* other = replacement(character); other != nullptr) result += other;
    else result += character;
  };
  while (!text.empty()) {
    std::size_t valid = 0;
    for (std::size_t length = 1; valid < text.size() && length > 0; valid += length)
      length = base::character_bytes(text.substr(valid));
    visit_clusters(text.substr(0, valid), [&](std::string_view cluster) {
      if (cluster.size() <= kLongestCluster_bytes) {
        if (const char* other = replacement(cluster); other != nullptr) {
          result += other;
          return;
        }
      }
      while (!cluster.empty()) {
        const std::size_t length = base::character_bytes(cluster);
        add_character(cluster.substr(0, length));
        cluster.remove_prefix(length);
      }
    });
    text.remove_prefix(valid);
    if (text.empty()) break;
    result += text.front();  // a byte that is not UTF-8
    text.remove_prefix(1);
  }
  return result;
}

}  // namespace qrl::data
