#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "state/json.h"

namespace qrl::data {

/// How such a file spells a space: "▁" (U+2581).
inline constexpr std::string_view kSpaceMark = "\xe2\x96\x81";

/// Describes how a tokenizer of SentencePiece's kind treats spaces. Its file spells them "▁" (U+2581). Inside this
/// program they are spaces in texts and in tokens, and "▁" in a text is read as a space, as in the tokenizers library.
struct SpaceRules {
  /// Says which segments of text between added tokens get a space in front: none; the text's first one, or each, if
  /// it does not begin with a space (Metaspace); each (Prepend).
  enum class Prefix : std::uint8_t { none, first, each, always };
  /// Says what decoding removes at the start: nothing, one space, or all spaces of the first token.
  enum class Strip : std::uint8_t { none, one, first_token };
  Prefix prefix = Prefix::none;
  Strip strip = Strip::none;
  // Normalizers of Unigram files, applied in this order before spaces are spelled "▁".
  std::string char_map;          ///< `precompiled_charsmap` of Precompiled; empty: none
  bool strips_end = false;       ///< whether white space at the end of a segment is dropped
  bool squeezes_spaces = false;  ///< whether several spaces become one
  bool splits = false;           ///< whether each space begins a new piece
  bool joins_bytes = false;      ///< whether decoding makes text of tokens "<0x0A>"
};

/// Reads normalizer, pre_tokenizer and decoder of a tokenizer.json. Returns nothing if none of them turns spaces into
/// "▁". Throws an input error that names a part which is not supported.
std::optional<SpaceRules> read_space_rules(const nlohmann::json& root, const std::string& where);

/// Replaces each "▁" by a space.
std::string with_spaces(std::string_view text);

/// Returns the byte that "<0x0A>" names; nothing for other tokens.
std::optional<unsigned char> byte_of_token(std::string_view token);

}  // namespace qrl::data
