#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/split_pattern.h"

namespace qrl::data {

/// A split of a text into pieces, each of which the next step splits.
struct SplitStep {
  SplitPattern pattern;
  bool keep_gaps = true;  ///< if set, text between matches becomes pieces as well; otherwise it is dropped
};

struct TokenizerParts {
  bool nfc = false;
  AddedTokens added_before_nfc;
  AddedTokens added_after_nfc;
  std::vector<SplitStep> steps;
  std::optional<Bpe> bpe;
  std::vector<types::TokenId> prefix, suffix;
  std::vector<std::string> id_to_bytes;  ///< each id's bytes; for an added token, its text
  std::vector<bool> is_special;          ///< by id
  std::map<std::string, types::TokenId, std::less<>> added_ids;
  types::TokenId eos = -1;
  std::string summary;                       ///< one-line description of vocabulary and pipeline
  std::map<std::string, std::string> files;  ///< file contents by file name, unchanged
  std::filesystem::path dir;                 ///< folder of the files; empty: none
};

TokenizerParts read_tokenizer(std::string_view tokenizer_json, const std::string& eos_token, const std::string& where);

}  // namespace qrl::data
