#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "types/prompt.h"

namespace qrl::data {

struct TokenizerParts;

/// Part of a text. Added tokens are recognized only if parse_added_tokens is set.
struct TextPart {
  std::string_view text;
  bool parse_added_tokens = false;  ///< false: "<|im_end|>" is ten plain characters
};

/// Converts text to token ids and back, as a Hugging Face tokenizer.json defines: byte-level BPE of GPT-2, Qwen2/3,
/// Llama 3 and Phi-2, and vocabularies without merges. Ids equal those of the tokenizers library. Reading refuses
/// unsupported settings by name. Cheap to copy; thread-safe.
class Tokenizer {
 public:
  /// Returns the quickstart's tokenizer: ids 0…255 are the bytes, then <|endoftext|> (256, special: end and padding),
  /// <answer> (257) and </answer> (258).
  static Tokenizer byte_level();
  /// Reads DIR/tokenizer.json and the end token: its name in DIR/tokenizer_config.json, else the first id in
  /// DIR/generation_config.json. If `dir` is a file, it is read as a tokenizer.json without an end token. Throws an
  /// input error with the reason if a file is refused.
  static Tokenizer load(const std::filesystem::path& dir);
  /// Reads a tokenizer.json's text (`where` names it in errors). eos_token: an added token's content ("": none).
  static Tokenizer parse(std::string_view tokenizer_json, const std::string& eos_token, const std::string& where);

  /// Encodes text of a user, a data set or a model. Never produces control tokens: "<answer>" becomes its letters.
  /// Recognizes only added tokens of whitespace alone (Phi-2's).
  std::vector<types::TokenId> encode(std::string_view text) const;
  /// Encodes the program's own text (templates, demonstrations). Recognizes added tokens, like the tokenizers library
  /// with add_special_tokens=False.
  std::vector<types::TokenId> encode_trusted(std::string_view text) const;
  /// Encodes several parts as one text. Bytes that are not UTF-8 become single-byte tokens. If the file requires NFC,
  /// each part is normalized; otherwise decode returns exactly the text.
  std::vector<types::TokenId> encode(std::span<const TextPart> parts) const;

  /// Counts the bytes of `text` that have no token. encode drops such bytes, or replaces them with the file's
  /// unk_token.
  std::int64_t unencodable_bytes(std::string_view text) const;
  bool lacks_bytes() const;
  /// Logs a warning that names `where`, unless `num_bytes` is 0.
  void warn_of_unencodable(const std::string& where, std::int64_t num_bytes) const;

  /// Returns the tokens that the file's post-processor puts before and after a text (Llama 3: <|begin_of_text|>
  /// before). encode does not add them.
  const std::vector<types::TokenId>& prefix() const;
  const std::vector<types::TokenId>& suffix() const;

  /// Returns the bytes of tokens, not necessarily UTF-8. Leaves out special tokens and, like transformers, ids without
  /// a token. Other added tokens appear as their text.
  std::string decode(std::span<const types::TokenId> tokens) const;
  /// Returns one token's bytes. For a special token, returns its text if `spell_special`, else "".
  std::string_view bytes_of(types::TokenId token, bool spell_special) const;

  types::TokenId eos() const;       ///< −1: unknown
  std::int64_t vocab_size() const;  ///< largest id + 1
  /// Returns the id of an added token by its text; −1: none.
  types::TokenId added_token_id(std::string_view text) const;

  std::string describe() const;
  /// Returns the content of a file that is stored with the tokenizer ("tokenizer_config.json"), or null.
  const std::string* file(const std::string& name) const;
  /// Returns a file's path in the loaded folder; the file need not exist.
  std::string path_of(const std::string& name) const;
  /// Writes the files as they were read.
  void save(const std::filesystem::path& dir) const;

 private:
  explicit Tokenizer(std::shared_ptr<const TokenizerParts> parts) : parts_(std::move(parts)) {}
  std::shared_ptr<const TokenizerParts> parts_;
};

/// Decodes tokens one at a time into whole characters.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool spell_special = false)
      : tokenizer_(tokenizer), spell_special_(spell_special) {}
  /// Returns the characters that this token completes, with U+FFFD for invalid UTF-8.
  std::string push(types::TokenId token);
  /// Returns U+FFFD for an incomplete last character, else nothing.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  bool spell_special_;
  std::string pending_;  ///< bytes of an incomplete character
};

}  // namespace qrl::data
