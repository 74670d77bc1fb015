#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "types/prompt.h"

namespace qrl::data {

struct AddedToken {
  std::string text;
  types::TokenId id = 0;
  bool special = false;      ///< omitted when decoding
  bool single_word = false;  ///< matches only if no word character is adjacent
  bool lstrip = false;       ///< match includes whitespace before it
  bool rstrip = false;       ///< match includes whitespace after it
  bool normalized = false;   ///< searched after normalization
};

struct TextRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Finds added tokens before a text is split, like the tokenizers library. The leftmost match wins, then the longest.
/// If single_word rejects a match, the search continues after it.
class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);

  struct Part {
    TextRange range;
    types::TokenId id = -1;
  };
  /// Splits `text`, which may be invalid UTF-8, into plain text and added tokens. `trusted` lists disjoint ranges in
  /// order. Inside these ranges, all added tokens are recognized. Outside, only tokens of whitespace are recognized
  /// (Phi-2's indents).
  std::vector<Part> split(std::string_view text, const std::vector<TextRange>& trusted) const;

 private:
  const AddedToken* match(std::string_view text, std::size_t at, std::size_t trusted_end) const;

  std::vector<AddedToken> tokens_;                   ///< sorted by first byte, then by decreasing length
  std::array<std::size_t, 257> first_of_byte_ = {};  ///< index into tokens_ of each byte's first token
};

}  // namespace qrl::data
