#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "types/prompt.h"

namespace qrl::data {

/// Two adjacent tokens that become one. A merge's rank is its index in the list of merges.
struct Merge {
  types::TokenId left = 0;
  types::TokenId right = 0;
  types::TokenId merged = 0;
};

/// Encodes a piece of text by byte-pair encoding (Sennrich et al. 2016), from its bytes (Radford et al. 2019) or its
/// characters. Merges the adjacent pair of lowest rank first, the leftmost on ties.
class Bpe {
 public:
  struct Unknown {
    types::TokenId id = -1;     ///< −1: drops the symbol, so that its neighbors become adjacent
    bool fuse_repeats = false;  ///< consecutive symbols without a token give a single `id`
  };
  using ByteIds = std::array<types::TokenId, 256>;

  /// `vocab`: each id's bytes, empty for a token that encoding must not produce. A pair that is listed twice has the
  /// later rank, as in the tokenizers library. `ignore_merges`: a piece that equals a token becomes that token without
  /// merges (Llama 3).
  Bpe(std::vector<std::string> vocab, std::span<const Merge> merges, bool ignore_merges, Unknown unknown);

  /// As above, but pieces begin as characters. A character without a token becomes its bytes' tokens, if there are any.
  Bpe(std::vector<std::string> vocab, std::span<const Merge> merges, bool ignore_merges, Unknown unknown,
      const std::optional<ByteIds>& byte_ids);

  /// Appends the ids of a piece of any bytes. Takes O(n log n) time.
  void encode(std::string_view piece, std::vector<types::TokenId>& ids) const;
  /// Counts the bytes of a text that have no token, or that belong to a character without one.
  std::int64_t unencodable_bytes(std::string_view text) const;
  bool has_all_bytes() const { return has_byte_.all(); }
  types::TokenId unknown() const { return unknown_.id; }

 private:
  static constexpr std::uint32_t kNoRank = 0xffffffffU;

  struct PairSlot {
    std::uint64_t pair = kEmptyPair;
    std::uint32_t rank = kNoRank;
  };
  struct WordSlot {
    std::uint32_t hash = 0;
    types::TokenId id = -1;
  };
  static constexpr std::uint64_t kEmptyPair = 0xffffffffffffffffULL;

  void add_merge(const Merge& merge, std::uint32_t rank);
  void add_word(types::TokenId id);
  types::TokenId find_word(std::string_view piece) const;
  std::uint32_t rank_of(types::TokenId left, types::TokenId right) const;
  void index(std::span<const Merge> merges, bool ignore_merges);
  types::TokenId find_character(std::string_view character) const;
  /// Writes the first symbols of a piece, at most one a byte; returns their number.
  std::size_t put_symbols(std::string_view piece, std::span<types::TokenId> tokens) const;
  void merge_short(std::string_view piece, std::vector<types::TokenId>& ids) const;
  void merge_long(std::string_view piece, std::vector<types::TokenId>& ids) const;
  bool makes_itself(types::TokenId id, std::vector<types::TokenId>& scratch) const;

  std::vector<std::string> vocab_;
  Unknown unknown_;
  bool by_character_ = false;
  std::unordered_map<std::uint32_t, types::TokenId> characters_;  ///< by their bytes, the first in the lowest bits
  std::bitset<256> has_byte_;
  ByteIds byte_ids_{};  ///< unknown_.id for a byte without a token
  std::vector<types::TokenId> merged_;
  std::vector<PairSlot> pairs_;  ///< open addressing; the size is a power of two
  /// Open addressing. Holds tokens that their own bytes merge into, or with ignore_merges, all tokens.
  std::vector<WordSlot> words_;
};

}  // namespace qrl::data
