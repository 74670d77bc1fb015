#pragma once

#include <span>

#include "state/json.h"

namespace qrl::data {

/// Metadata keys of a tokenizer start with it.
inline constexpr const char* kGgufPrefix = "tokenizer.ggml.";

/// Kinds of tokens in tokenizer.ggml.token_type.
enum GgufTokenKind : std::int32_t {
  kNormalToken = 1,
  kUnknownToken = 2,
  kControlToken = 3,
  kUserToken = 4,
  kUnusedToken = 5,
  kByteToken = 6
};

/// Describes what tokenizer.ggml.pre says of a byte-level BPE.
struct GgufSplit {
  const char* word;
  const char* pattern;  ///< null: GPT-2's
  bool digits;          ///< whether digits are split off one by one first
  bool nfc;
  bool ignores_merges;  ///< whether a whole word in the vocabulary is taken as it is
};

/// Returns the splits that are known. If words mean the same, the usual one is first.
std::span<const GgufSplit> gguf_splits();

/// Return the parts of a tokenizer.json that a split stands for.
nlohmann::ordered_json pre_tokenizer_json(const GgufSplit& split);
nlohmann::ordered_json normalizer_json(const GgufSplit& split);

}  // namespace qrl::data
