// Owns text ↔ token ids as a Hugging Face tokenizer.json defines them. Knows nothing of models or prompts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "types/prompt.h"

namespace qrl::data {

/// Byte-level BPE without merges plus added tokens: what the quickstart's models use. A tokenizer.json with merges,
/// normalisers or other pre-tokenisers is refused by name.
class Tokenizer {
 public:
  /// The quickstart's: ids 0…255 are the bytes, then <|endoftext|> (256, special: end and padding), <answer> (257) and
  /// </answer> (258), one token each.
  static Tokenizer byte_level();
  /// Reads DIR/tokenizer.json, and the end token's name from DIR/tokenizer_config.json; every reason for refusal is an
  /// input error that names it.
  static Tokenizer load(const std::filesystem::path& dir);
  /// The same from the text of a tokenizer.json (named `where` in errors) and the content of the added token that ends
  /// a text.
  static Tokenizer parse(std::string_view tokenizer_json, const std::string& eos_token, const std::string& where);

  /// Text of a user or data set: bytes only, never control or added tokens ("<answer>" becomes eight bytes).
  std::vector<types::TokenId> encode(std::string_view text) const;
  /// Text of our own making (templates, demonstrations): added tokens are recognised, leftmost first, of those that
  /// begin at one place the longest.
  std::vector<types::TokenId> encode_trusted(std::string_view text) const;
  /// Bytes as they are (not necessarily UTF-8); special tokens left out, other added tokens spelled. Ids that no token
  /// has (the padding rows of a model's vocabulary) are left out, as transformers does.
  std::string decode(std::span<const types::TokenId> tokens) const;

  types::TokenId eos() const { return eos_; }
  std::int64_t vocab_size() const { return static_cast<std::int64_t>(id_to_bytes_.size()); }  ///< largest id + 1

  /// Writes tokenizer.json and tokenizer_config.json that transformers reads to the same ids.
  void save(const std::filesystem::path& dir) const;

 private:
  friend class TokenizerReader;

  struct Added {
    std::string text;
    types::TokenId id = 0;
    bool special = false;
  };
  std::vector<types::TokenId> byte_to_id_;  ///< 256
  std::vector<std::string> id_to_bytes_;    ///< by id; empty for special tokens
  std::vector<std::string> vocab_;          ///< by id, as the model's vocabulary spells it; added tokens may follow it
  std::vector<Added> added_;                ///< longest first
  types::TokenId eos_ = -1;
};

}  // namespace qrl::data
