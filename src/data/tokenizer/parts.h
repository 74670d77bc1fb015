// Owns what a tokenizer.json comes to once it is read. Knows nothing of files.
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

/// One cut of a text into pieces, each of which the next cut is made in.
struct SplitStep {
  SplitPattern pattern;
  bool keep_gaps = true;  ///< what lies between matches is a piece, too; else it is dropped
};

struct TokenizerParts {
  bool nfc = false;
  AddedTokens added_before_nfc;
  AddedTokens added_after_nfc;
  std::vector<SplitStep> steps;
  std::optional<Bpe> bpe;
  std::vector<types::TokenId> prefix, suffix;
  std::vector<std::string> id_to_bytes;  ///< by id; added tokens by their spelling
  std::vector<bool> is_special;          ///< by id
  std::map<std::string, types::TokenId, std::less<>> added_ids;
  types::TokenId eos = -1;
  std::string summary;                       ///< vocabulary and pipeline in one line
  std::map<std::string, std::string> files;  ///< by name, as they were read
  std::filesystem::path dir;                 ///< where they were; empty: nowhere
};

/// Reads the text of a tokenizer.json; see Tokenizer::parse.
TokenizerParts read_tokenizer(std::string_view tokenizer_json, const std::string& eos_token, const std::string& where);

}  // namespace qrl::data
