#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/spaces.h"
#include "data/tokenizer/split_pattern.h"

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
  std::optional<Bpe> bpe;
  std::vector<types::TokenId> prefix, suffix;
  std::vector<std::string> id_to_bytes;  ///< each id's bytes; for an added token, its text
  std::vector<bool> is_special;
  std::map<std::string, types::TokenId, std::less<>> added_ids;
  types::TokenId eos = -1;
  std::string summary;                       ///< one-line description of vocabulary and pipeline
  std::map<std::string, std::string> files;  ///< unchanged contents of files by name
  std::filesystem::path dir;
};

TokenizerParts read_tokenizer(std::string_view tokenizer_json, const std::string& eos_token, const std::string& where);

}  // namespace qrl::data
