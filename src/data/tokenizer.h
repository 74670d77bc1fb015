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

/// Part of a text.
struct TextPart {
  std::string_view text;
  bool parse_added_tokens = false;  ///< false: "<|im_end|>" is ten plain characters
};

/// Converts text to token ids and back, as a Hugging Face tokenizer.json defines: byte-level BPE of GPT-2, Qwen2/3,
/// Llama 3 and Phi-2, and vocabularies without merges. Ids equal those of the tokenizers library. Reading refuses
/// unsupported settings and names them in the error. Cheap to copy; thread-safe.
class Tokenizer {
 public:
  /// Returns the quickstart's tokenizer: ids 0…255 are the bytes, then <|endoftext|> (256, special: end and padding),
  /// <answer> (257) and </answer> (258).
  static Tokenizer byte_level();
  /// Reads DIR/tokenizer.json. The end token is the name in DIR/tokenizer_config.json, else the first id in
  /// DIR/generation_config.json. If `dir` is a GGUF file, reads its tokenizer; another file is read as a tokenizer.json
  /// without an end token. Throws an input error with the reason if it refuses a file.
  static Tokenizer load(const std::filesystem::path& dir);
  /// Reads a tokenizer.json's text (`where` names it in errors). eos_token: an added token's content ("": none).
  static Tokenizer parse(std::string_view tokenizer_json, const std::string& eos_token, const std::string& where);

  /// Encodes text of a user, a data set or a model. Never produces control tokens: "<answer>" becomes its letters.
  /// Recognizes only those added tokens that consist of whitespace, such as Phi-2's.
  std::vector<types::TokenId> encode(std::string_view text) const;
  /// Encodes the program's own text (templates, demonstrations). Recognizes added tokens, like the tokenizers library
  /// with add_special_tokens=False.
  std::vector<types::TokenId> encode_trusted(std::string_view text) const;
  /// Encodes the parts as one text. Bytes that are not UTF-8 become single-byte tokens. decode returns exactly the
  /// text, unless the file requires NFC: then each part is normalized.
  std::vector<types::TokenId> encode(std::span<const TextPart> parts) const;

  /// Counts the bytes of `text` that have no token. encode drops them, or replaces them by the file's unk_token.
  std::int64_t unencodable_bytes(std::string_view text) const;
  bool lacks_bytes() const;
  void warn_of_unencodable(const std::string& where, std::int64_t num_bytes) const;

  /// Returns the tokens that the file's post-processor adds before or after a text (Llama 3: <|begin_of_text|> before).
  /// encode does not add them.
  const std::vector<types::TokenId>& prefix() const;
  const std::vector<types::TokenId>& suffix() const;

  /// Returns the bytes of tokens, which may be invalid UTF-8. Omits special tokens and, like transformers, ids without
  /// a token. Other added tokens appear as their text.
  std::string decode(std::span<const types::TokenId> tokens) const;
  /// Returns one token's bytes. For a special token, returns its text if `spell_special`, else "".
  std::string_view bytes_of(types::TokenId token, bool spell_special) const;

  types::TokenId eos() const;       ///< −1: unknown
  std::int64_t vocab_size() const;  ///< largest id + 1
  /// Returns the id of the added token with this text; −1: none.
  types::TokenId added_token_id(std::string_view text) const;

  std::string describe() const;
  /// Returns the content of a file that is stored with the tokenizer, or null.
  const std::string* file(const std::string& name) const;
  /// Returns a file's path in the loaded folder, even if no such file exists.
  std::string path_of(const std::string& name) const;
  void save(const std::filesystem::path& dir) const;

 private:
  static Tokenizer from_gguf(const std::filesystem::path& file);
  explicit Tokenizer(std::shared_ptr<const TokenizerParts> parts) : parts_(std::move(parts)) {}
  std::shared_ptr<const TokenizerParts> parts_;
};

/// Decodes a stream of tokens. Returns only whole characters.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool spell_special = false)
      : tokenizer_(tokenizer), spell_special_(spell_special) {}
  /// Returns the characters that this token completes. U+FFFD replaces invalid UTF-8.
  std::string push(types::TokenId token);
  /// Returns U+FFFD if the last character is incomplete, else nothing.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  bool spell_special_;
  std::string pending_;
};

}  // namespace qrl::data
