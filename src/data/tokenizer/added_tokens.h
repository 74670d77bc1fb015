// Owns the tokens that a tokenizer finds in a text before it is cut into pieces. Knows nothing of pieces and merges.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "types/prompt.h"

namespace qrl::data {

/// As tokenizer.json's added_tokens has it.
struct AddedToken {
  std::string text;
  types::TokenId id = 0;
  bool special = false;      ///< left out when text is decoded
  bool single_word = false;  ///< only where no word goes on beside it
  bool lstrip = false;       ///< takes the white space before it in
  bool rstrip = false;       ///< takes the white space after it in
  bool normalized = false;   ///< looked for after normalization
};

/// A range of a text: bytes begin … end − 1.
struct TextRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Added tokens of one kind (looked for before normalization, or after it), as the tokenizers library finds them: the
/// leftmost first, of those that begin at one place the longest; one that single_word rejects hides what it covers.
class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);

  /// Cuts `text`, valid UTF-8 or not, in order into ranges of plain text and tokens (id −1 and the id). `trusted`
  /// lists, in order and apart from each other, where tokens may be found; outside of them only tokens of white space
  /// alone, which control nothing (Phi-2's indents), are.
  struct Part {
    TextRange range;
    types::TokenId id = -1;
  };
  std::vector<Part> split(std::string_view text, const std::vector<TextRange>& trusted) const;

 private:
  const AddedToken* match(std::string_view text, std::size_t at, std::size_t trusted_end) const;

  std::vector<AddedToken> tokens_;                   ///< by first byte, then longest first
  std::array<std::size_t, 257> first_of_byte_ = {};  ///< index into tokens_ of the first that begins with that byte
};

}  // namespace qrl::data
