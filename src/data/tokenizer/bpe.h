// Owns byte-pair encoding: the bytes of one piece of text to token ids. Knows nothing of how text is cut into pieces.
#pragma once

#include <array>
#include <bitset>
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
  /// What a byte becomes that the vocabulary has no token for.
  struct Unknown {
    types::TokenId id = -1;     ///< -1: nothing; its neighbors then stand side by side
    bool fuse_repeats = false;  ///< several in a row become `id` once
  };

  /// `vocab`: bytes by id, empty where text must never become the token; each single byte is in it at most once. A pair
  /// that comes twice has the later rank, as in the tokenizers library. `ignore_merges`: a piece that is a token as a
  /// whole becomes it, whatever the merges would make of it (Llama 3).
  Bpe(std::vector<std::string> vocab, std::span<const Merge> merges, bool ignore_merges, Unknown unknown);

  /// Appends the ids of one piece, any bytes. Takes time that grows as n·log n.
  void encode(std::string_view piece, std::vector<types::TokenId>& ids) const;
  /// Whether the vocabulary has a token of this byte alone.
  bool has_byte(unsigned char byte) const { return has_byte_[byte]; }
  bool has_all_bytes() const { return has_byte_.all(); }
  /// What a byte without a token becomes; -1: nothing.
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
  std::size_t put_single_bytes(std::string_view piece, std::span<types::TokenId> tokens) const;
  void merge_short(std::string_view piece, std::vector<types::TokenId>& ids) const;
  void merge_long(std::string_view piece, std::vector<types::TokenId>& ids) const;
  bool makes_itself(types::TokenId id, std::vector<types::TokenId>& scratch) const;

  std::vector<std::string> vocab_;
  Unknown unknown_;
  std::bitset<256> has_byte_;
  std::array<types::TokenId, 256> byte_ids_{};  ///< of a byte without a token: unknown_.id
  std::vector<types::TokenId> merged_;          ///< by rank
  std::vector<PairSlot> pairs_;                 ///< open addressing, a power of two of slots
  std::vector<WordSlot> words_;                 ///< the same; tokens that are what their own bytes become
};

}  // namespace qrl::data
