#pragma once

#include <cstdint>
#include <vector>

#include "data/tokenizer.h"
#include "state/gguf_writer.h"

namespace qrl::data {

/// Returns the metadata of a tokenizer for a GGUF file: tokens, merges and tokenizer.ggml.pre, or scores that represent
/// merges (SentencePiece's BPE), end token, chat template. Ids up to vocab_size that have no token become unused ones.
/// Throws an input error, which names the part, for a tokenizer that llama.cpp would split or decorate otherwise.
std::vector<state::GgufKey> gguf_keys(const Tokenizer& tokenizer, std::int64_t vocab_size);

}  // namespace qrl::data
