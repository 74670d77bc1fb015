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
  bool special = false;      ///< left out when decoding
  bool single_word = false;  ///< matches only without adjacent word characters
  bool lstrip = false;       ///< match includes whitespace before it
  bool rstrip = false;       ///< match includes whitespace after it
  bool normalized = false;   ///< searched after normalization
};

struct TextRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Finds added tokens before a text is split, like the tokenizers library. The leftmost match wins, then the longest. A
/// match that single_word rejects still consumes its text.
class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);

  struct Part {
    TextRange range;
    types::TokenId id = -1;  ///< −1: plain text
  };
  /// Splits `text`, valid UTF-8 or not, in order into plain text and added tokens. `trusted` lists disjoint ranges in
  /// order. Inside them, all added tokens are recognized; elsewhere, only tokens of whitespace (Phi-2's indents).
  std::vector<Part> split(std::string_view text, const std::vector<TextRange>& trusted) const;

 private:
  const AddedToken* match(std::string_view text, std::size_t at, std::size_t trusted_end) const;

  std::vector<AddedToken> tokens_;                   ///< sorted by first byte, then longest first
  std::array<std::size_t, 257> first_of_byte_ = {};  ///< index into tokens_ of each byte's first token
};

}  // namespace qrl::data
