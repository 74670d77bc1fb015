// Owns text ↔ token ids as a Hugging Face tokenizer.json defines them. Knows nothing of models or prompts.
#pragma once

#include <filesystem>
#include <map>
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
  /// Reads DIR/tokenizer.json; every reason for refusal is an input error that names it.
  static Tokenizer load(const std::filesystem::path& dir);

  /// Text of a user or data set: bytes only, never control or added tokens ("<answer>" becomes eight bytes).
  std::vector<types::TokenId> encode(std::string_view text) const;
  /// Text of our own making (templates, demonstrations): added tokens are recognised, longest first.
  std::vector<types::TokenId> encode_trusted(std::string_view text) const;
  /// Bytes as they are (not necessarily UTF-8); special tokens left out, other added tokens spelled.
  std::string decode(std::span<const types::TokenId> tokens) const;

  types::TokenId eos() const { return eos_; }
  std::int64_t vocab_size() const { return vocab_size_; }   ///< largest id + 1

  /// Writes tokenizer.json and tokenizer_config.json that transformers reads to the same ids.
  void save(const std::filesystem::path& dir) const;

 private:
  struct Added {
    std::string text;
    types::TokenId id = 0;
    bool special = false;
  };
  std::vector<types::TokenId> byte_to_id_;       ///< 256
  std::vector<std::string> id_to_bytes_;         ///< by id; empty for special tokens
  std::vector<Added> added_;
  types::TokenId eos_ = -1;
  std::int64_t vocab_size_ = 0;
};

}  // namespace qrl::data
