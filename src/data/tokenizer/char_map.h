#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qrl::data {

/// Replaces characters by a map that SentencePiece compiled (tokenizer.json's Precompiled normalizer): a double-array
/// trie of texts, and what each becomes.
///
/// Like the tokenizers library, it looks up whole grapheme clusters of at most 5 bytes, then single characters. It
/// takes the shortest text in the trie that one of them begins with, and drops what follows it in the cluster.
class CharMap {
 public:
  /// Decodes `precompiled_charsmap`. Throws an input error for a text that is not such a map.
  CharMap(std::string_view base64, const std::string& where);

  std::string normalized(std::string_view text) const;

 private:
  /// Returns what a text becomes, or null.
  const char* replacement(std::string_view text) const;

  std::vector<std::uint32_t> trie_;
  std::string texts_;  ///< replacements, each ended by a zero
};

}  // namespace qrl::data
