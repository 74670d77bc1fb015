#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/tokenizer/bpe.h"
#include "types/prompt.h"

namespace qrl::data {

/// Encodes a piece of text by a unigram language model (Kudo 2018): the tokens whose scores have the largest sum.
/// Characters without a token have a score of their own, and adjacent ones are one unknown token.
class Unigram {
 public:
  struct Token {
    std::string bytes;  ///< empty for a token that encoding must not produce
    double score = 0;
  };

  /// `byte_ids`: if set, unknown text becomes its bytes' tokens instead of `unknown`.
  Unigram(std::vector<Token> vocab, types::TokenId unknown, const std::optional<Bpe::ByteIds>& byte_ids);

  /// Appends the ids of a piece of any bytes. Each byte that is not UTF-8 is a character.
  void encode(std::string_view piece, std::vector<types::TokenId>& ids) const;
  /// Counts the bytes of a text that become unknown tokens.
  std::int64_t unencodable_bytes(std::string_view text) const;
  bool has_all_bytes() const { return byte_ids_.has_value(); }
  types::TokenId unknown() const { return unknown_; }

 private:
  struct Node {
    double score = 0;
    std::size_t begin = 0;
    types::TokenId id = kNone;
  };
  static constexpr types::TokenId kNone = -1;
  static constexpr types::TokenId kUnknown = -2;

  /// Returns the best path's last token for each end in the piece.
  std::vector<Node> best_ends(std::string_view piece) const;
  /// Calls visit(begin, end, id) for each token of the best path, in order; kUnknown for a run of unknown characters.
  template <class Visit>
  void visit_tokens(std::string_view piece, const Visit& visit) const;
  std::int32_t child(std::int32_t node, unsigned char byte) const;

  std::vector<double> scores_;
  std::unordered_map<std::uint64_t, std::int32_t> children_;  ///< nodes of a trie, by parent · 256 + byte
  std::vector<types::TokenId> ids_of_nodes_;
  std::unordered_map<std::string, types::TokenId> ids_;
  double unknown_score_ = 0;
  types::TokenId unknown_;
  std::optional<Bpe::ByteIds> byte_ids_;
};

}  // namespace qrl::data
