#include "data/tokenizer/unigram.h"

#include <algorithm>

#include "base/text.h"

namespace qrl::data {

using types::TokenId;

namespace {

/// Subtracted from the least score: the score of an unknown character, as in the tokenizers library.
constexpr double kUnknownPenalty = 10;

std::size_t first_character_bytes(std::string_view text) {
  return std::max<std::size_t>(1, base::character_bytes(text));
}

}  // namespace

Unigram::Unigram(std::vector<Token> vocab, TokenId unknown, const std::optional<Bpe::ByteIds>& byte_ids)
    : ids_of_nodes_{kNone}, unknown_(unknown), byte_ids_(byte_ids) {
  double least = vocab.empty() ? 0 : vocab.front().score;
  for (std::size_t id = 0; id < vocab.size(); ++id) {
    Token& token = vocab[id];
    least = std::min(least, token.score);
    scores_.push_back(token.score);
    if (token.bytes.empty()) continue;
    std::int32_t node = 0;
    for (const char byte : token.bytes) {
      const std::uint64_t key = static_cast<std::uint64_t>(node) * 256 + static_cast<unsigned char>(byte);
      const auto [found, is_new] = children_.emplace(key, static_cast<std::int32_t>(ids_of_nodes_.size()));
      if (is_new) ids_of_nodes_.push_back(kNone);
      node = found->second;
    }
    ids_of_nodes_[static_cast<std::size_t>(node)] = static_cast<TokenId>(id);
    ids_.insert_or_assign(std::move(token.bytes), static_cast<TokenId>(id));
  }
  unknown_score_ = least - kUnknownPenalty;
}

std::int32_t Unigram::child(std::int32_t node, unsigned char byte) const {
  const auto found = children_.find(static_cast<std::uint64_t>(node) * 256 + byte);
  return found == children_.end() ? -1 : found->second;
}

std::vector<Unigram::Node> Unigram::best_ends(std::string_view piece) const {
  std::vector<Node> ends(piece.size() + 1);
  const auto offer = [&](std::size_t begin, std::size_t end, TokenId id, double score) {
    if (ends[end].id != kNone && score <= ends[end].score) return;
    ends[end] = {score, begin, id};
  };
  for (std::size_t begin = 0; begin < piece.size();) {
    const double before = ends[begin].score;
    const std::size_t length = first_character_bytes(piece.substr(begin));
    bool is_known = false;
    std::int32_t node = 0;
    for (std::size_t at = begin; at < piece.size(); ++at) {
      node = child(node, static_cast<unsigned char>(piece[at]));
      if (node < 0) break;
      const TokenId id = ids_of_nodes_[static_cast<std::size_t>(node)];
      if (id == kNone) continue;
      offer(begin, at + 1, id, scores_[static_cast<std::size_t>(id)] + before);
      is_known = is_known || at + 1 == begin + length;
    }
    if (!is_known) offer(begin, begin + length, kUnknown, unknown_score_ + before);
    begin += length;
  }
  return ends;
}

template <class Visit>
void Unigram::visit_tokens(std::string_view piece, const Visit& visit) const {
  const std::vector<Node> ends = best_ends(piece);
  struct Part {
    std::size_t begin, end;
    TokenId id;
  };
  std::vector<Part> parts;  // from the last to the first
  for (std::size_t end = piece.size(); end > 0; end = ends[end].begin) {
    const Node& node = ends[end];
    if (node.id == kUnknown && !parts.empty() && parts.back().id == kUnknown) parts.back().begin = node.begin;
    else parts.push_back({node.begin, end, node.id});
  }
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) visit(part->begin, part->end, part->id);
}

void Unigram::encode(std::string_view piece, std::vector<TokenId>& ids) const {
  visit_tokens(piece, [&](std::size_t begin, std::size_t end, TokenId id) {
    if (id != kUnknown) {
      ids.push_back(id);
      return;
    }
    const std::string_view text = piece.substr(begin, end - begin);
    if (const auto found = ids_.find(std::string(text)); found != ids_.end()) {
      ids.push_back(found->second);  // a token that joins characters without tokens of their own
    } else if (byte_ids_) {
      for (const char byte : text) ids.push_back((*byte_ids_)[static_cast<unsigned char>(byte)]);
    } else {
      ids.push_back(unknown_);
    }
  });
}

std::int64_t Unigram::unencodable_bytes(std::string_view text) const {
  if (byte_ids_) return 0;
  std::int64_t count = 0;
  visit_tokens(text, [&](std::size_t begin, std::size_t end, TokenId id) {
    if (id == kUnknown) count += static_cast<std::int64_t>(end - begin);
  });
  return count;
}

}  // namespace qrl::data
