#pragma once

#include <string>

#include "state/gguf.h"

namespace qrl::data {

/// Holds the text files of a tokenizer, as Hugging Face folders have them.
struct TokenizerFiles {
  std::string tokenizer;         ///< tokenizer.json
  std::string tokenizer_config;  ///< tokenizer_config.json: end token, chat template
};

/// Makes the tokenizer of a GGUF file: byte-level BPE, split as tokenizer.ggml.pre says, or SentencePiece's BPE. Throws
/// an input error for another kind, an unknown split, and lists that do not fit together.
TokenizerFiles gguf_tokenizer(const state::GgufFile& file);

}  // namespace qrl::data
