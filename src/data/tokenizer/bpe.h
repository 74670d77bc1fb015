// Owns byte-pair encoding: the bytes of one piece of text to token ids. Knows nothing of how text is cut into pieces.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "types/prompt.h"

namespace qrl::data {

/// Two neighbors that become one token. A list of merges is in order of rank: the first is done first.
struct Merge {
  types::TokenId left = 0;
  types::TokenId right = 0;
  types::TokenId merged = 0;
};

/// Byte-pair encoding (Sennrich et al. 2016, over bytes as Radford et al. 2019): of all neighbors the pair of lowest
/// rank is merged first, of equal ones the leftmost, until none is left.
class Bpe {
 public:
  /// `vocab`: bytes by id, empty where text must never become the token; each single byte is in it once. A pair that
  /// comes twice has the later rank, as in the tokenizers library. `ignore_merges`: a piece that is a token as a whole
  /// becomes it, whatever the merges would make of it (Llama 3).
  Bpe(std::vector<std::string> vocab, std::span<const Merge> merges, bool ignore_merges);

  /// Appends the ids of one piece, any bytes. Takes time that grows as n·log n.
  void encode(std::string_view piece, std::vector<types::TokenId>& ids) const;
  /// The id of a single byte.
  types::TokenId byte_id(unsigned char byte) const { return byte_ids_[byte]; }

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
  void merge_short(std::string_view piece, std::vector<types::TokenId>& ids) const;
  void merge_long(std::string_view piece, std::vector<types::TokenId>& ids) const;
  bool makes_itself(types::TokenId id, std::vector<types::TokenId>& scratch) const;

  std::vector<std::string> vocab_;
  std::array<types::TokenId, 256> byte_ids_{};
  std::vector<types::TokenId> merged_;  ///< by rank
  std::vector<PairSlot> pairs_;         ///< open addressing, a power of two of slots
  std::vector<WordSlot> words_;         ///< the same; tokens that are what their own bytes become
};

}  // namespace qrl::data
