// Owns text ↔ token ids as a Hugging Face tokenizer.json defines them. Knows nothing of models or prompts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "types/prompt.h"

namespace qrl::data {

struct TokenizerParts;

/// A part of a text. The parts of a text are read as if they were one, so that ids are those of the whole text; only
/// where added tokens may come from differs.
struct TextPart {
  std::string_view text;
  bool parse_added_tokens = false;  ///< false: "<|im_end|>" is ten characters like any others
};

/// Byte-level BPE: the families of GPT-2, Qwen2/3, Llama 3 and Phi-2, and vocabularies without merges. Ids equal those
/// of the tokenizers library, which reads the same file; a setting of the file that we do not know is refused by name
/// when it is read. Cheap to copy; may be used by many threads at once.
class Tokenizer {
 public:
  /// The quickstart's: ids 0…255 are the bytes, then <|endoftext|> (256, special: end and padding), <answer> (257) and
  /// </answer> (258), one token each.
  static Tokenizer byte_level();
  /// Reads DIR/tokenizer.json and the end token: its name in DIR/tokenizer_config.json, else the first id in
  /// DIR/generation_config.json. Every reason for refusal is an input error that names it. Keeps the files of the
  /// tokenizer for `save`. A file in DIR's place is a tokenizer.json alone, without end token.
  static Tokenizer load(const std::filesystem::path& dir);
  /// The same from the text of a tokenizer.json (named `where` in errors) and the content of the added token that ends
  /// a text ("": none).
  static Tokenizer parse(std::string_view tokenizer_json, const std::string& eos_token, const std::string& where);

  /// Text of a user, a data set or a model: never control tokens ("<answer>" is what its letters are). The one kind of
  /// added token that it reads is white space alone, which controls nothing (Phi-2's runs of spaces).
  std::vector<types::TokenId> encode(std::string_view text) const;
  /// Text of our own making (templates, demonstrations): added tokens are recognized, as the tokenizers library does
  /// with add_special_tokens=False.
  std::vector<types::TokenId> encode_trusted(std::string_view text) const;
  /// Several parts as one text. Bytes that are not UTF-8 become the tokens of single bytes; where the file asks for
  /// NFC, each part is brought into it, so that decode gives back the text's normal form, and else exactly the text.
  /// Neither holds of bytes that the vocabulary lacks.
  std::vector<types::TokenId> encode(std::span<const TextPart> parts) const;

  /// Bytes of `text` that the vocabulary has no token for: encode leaves them out, or gives them the file's unk_token,
  /// as the tokenizers library does.
  std::int64_t unencodable_bytes(std::string_view text) const;
  /// Whether there are such bytes.
  bool lacks_bytes() const;
  /// Logs a warning that names `where` for a text of `where` with such bytes; none when `num_bytes` is 0.
  void warn_of_unencodable(const std::string& where, std::int64_t num_bytes) const;

  /// What the file's post-processor puts before and behind a text (Llama 3: <|begin_of_text|> before), which encode
  /// leaves to the caller.
  const std::vector<types::TokenId>& prefix() const;
  const std::vector<types::TokenId>& suffix() const;

  /// Bytes as they are (not necessarily UTF-8); special tokens left out, other added tokens spelled. Ids that no token
  /// has (the padding rows of a model's vocabulary) are left out, as transformers does.
  std::string decode(std::span<const types::TokenId> tokens) const;
  /// The bytes of one token; of a special one its spelling when `spell_special`, else none.
  std::string_view bytes_of(types::TokenId token, bool spell_special) const;

  types::TokenId eos() const;       ///< −1: none known
  std::int64_t vocab_size() const;  ///< largest id + 1
  /// The id of the added token that is spelled so; −1: none.
  types::TokenId added_token_id(std::string_view text) const;

  /// One line for `qrl-train check tokenizer`.
  std::string describe() const;
  /// A file that came with the tokenizer ("tokenizer_config.json"), or nothing where it had none.
  const std::string* file(const std::string& name) const;
  /// Where that is or would be, for messages: with the folder that was loaded.
  std::string path_of(const std::string& name) const;
  /// Writes the tokenizer's files as they were read; transformers reads them to the same ids.
  void save(const std::filesystem::path& dir) const;

 private:
  explicit Tokenizer(std::shared_ptr<const TokenizerParts> parts) : parts_(std::move(parts)) {}
  std::shared_ptr<const TokenizerParts> parts_;
};

/// Text of tokens that come one after another: gives back only whole characters, and keeps the bytes of a character
/// that is not complete until it is.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool spell_special = false)
      : tokenizer_(tokenizer), spell_special_(spell_special) {}
  /// The characters that this token completes; bytes that cannot begin or go on a character of UTF-8 come as U+FFFD.
  std::string push(types::TokenId token);
  /// What is left at the end: U+FFFD for a character that was not completed, else nothing.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  bool spell_special_;
  std::string pending_;  ///< the beginning of one character
};

}  // namespace qrl::data
