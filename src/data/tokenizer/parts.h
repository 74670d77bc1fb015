#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/char_map.h"
#include "data/tokenizer/spaces.h"
#include "data/tokenizer/split_pattern.h"
#include "data/tokenizer/unigram.h"

namespace qrl::data {

/// A step that splits a text into pieces. The next step splits each piece further.
struct SplitStep {
  SplitPattern pattern;
  bool keep_gaps = true;  ///< if set, text between matches also becomes pieces; otherwise it is dropped
};

struct TokenizerParts {
  bool nfc = false;
  AddedTokens added_before_nfc;
  AddedTokens added_after_nfc;
  std::optional<SpaceRules> spaces;  ///< of a tokenizer whose file spells spaces "▁"; then there are no steps
  std::vector<SplitStep> steps;
  std::optional<CharMap> char_map;  ///< of SpaceRules::char_map
  std::optional<Bpe> bpe;
  std::optional<Unigram> unigram;  ///< instead of bpe
  std::vector<types::TokenId> prefix, suffix;
  std::vector<std::string> id_to_bytes;  ///< each id's bytes; for an added token, its text
  std::vector<bool> is_special;
  std::map<std::string, types::TokenId, std::less<>> added_ids;
  types::TokenId eos = -1;
  std::string summary;                       ///< one-line description of vocabulary and pipeline
  std::map<std::string, std::string> files;  ///< unchanged contents of files by name
  std::filesystem::path dir;

  void encode(std::string_view piece, std::vector<types::TokenId>& ids) const {
    if (unigram) unigram->encode(piece, ids);
    else bpe->encode(piece, ids);
  }
};

/// Applies the normalizers of a file that spells spaces "▁" to a segment of text, and replaces each "▁" by a space.
std::string spaced_text(const TokenizerParts& parts, std::string_view text);

TokenizerParts read_tokenizer(std::string_view tokenizer_json, const std::string& eos_token, const std::string& where);

}  // namespace qrl::data
