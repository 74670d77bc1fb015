#include "data/tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <queue>

#include "base/text.h"

namespace qrl::data {

using types::TokenId;

namespace {

/// Below this length, a linear scan for the best pair is faster than a heap.
constexpr std::size_t kShort_bytes = 48;

std::uint64_t pair_key(TokenId left, TokenId right) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) | static_cast<std::uint32_t>(right);
}

/// Fibonacci hashing: takes the product's high half.
std::size_t hash_of(std::uint64_t pair) {
  return static_cast<std::size_t>(((pair ^ (pair >> 29)) * 0x9e3779b97f4a7c15ULL) >> 32);
}

std::size_t hash_of(std::string_view word) { return std::hash<std::string_view>{}(word); }

std::uint32_t packed(std::string_view character) {
  std::uint32_t bytes = 0;
  for (std::size_t i = 0; i < character.size(); ++i)
    bytes |= std::uint32_t{static_cast<unsigned char>(character[i])} << (8 * i);
  return bytes;
}

/// Returns a power of two above 2 · `count`.
std::size_t num_slots(std::size_t count) { return std::bit_ceil(2 * count + 2); }

}  // namespace

Bpe::Bpe(std::vector<std::string> vocab, std::span<const Merge> merges, bool ignore_merges, Unknown unknown)
    : vocab_(std::move(vocab)), unknown_(unknown), pairs_(num_slots(merges.size())), words_(num_slots(vocab_.size())) {
  byte_ids_.fill(unknown.id);
  for (std::size_t id = 0; id < vocab_.size(); ++id) {
    if (vocab_[id].size() != 1) continue;
    const auto byte = static_cast<unsigned char>(vocab_[id][0]);
    byte_ids_[byte] = static_cast<TokenId>(id);
    has_byte_[byte] = true;
  }
  index(merges, ignore_merges);
}

Bpe::Bpe(std::vector<std::string> vocab, std::span<const Merge> merges, bool ignore_merges, Unknown unknown,
         const std::optional<ByteIds>& byte_ids)
    : vocab_(std::move(vocab)),
      unknown_(unknown),
      by_character_(true),
      pairs_(num_slots(merges.size())),
      words_(num_slots(vocab_.size())) {
  if (byte_ids) {
    byte_ids_ = *byte_ids;
    has_byte_.set();
  }
  for (std::size_t id = 0; id < vocab_.size(); ++id) {
    const std::size_t length = base::character_bytes(vocab_[id]);
    if (length > 0 && length == vocab_[id].size()) characters_[packed(vocab_[id])] = static_cast<TokenId>(id);
  }
  index(merges, ignore_merges);
}

void Bpe::index(std::span<const Merge> merges, bool ignore_merges) {
  merged_.reserve(merges.size());
  for (std::size_t rank = 0; rank < merges.size(); ++rank) add_merge(merges[rank], static_cast<std::uint32_t>(rank));
  std::vector<TokenId> scratch;
  for (std::size_t id = 0; id < vocab_.size(); ++id) {
    const auto token = static_cast<TokenId>(id);
    if (!vocab_[id].empty() && (ignore_merges || makes_itself(token, scratch))) add_word(token);
  }
}

void Bpe::add_merge(const Merge& merge, std::uint32_t rank) {
  merged_.push_back(merge.merged);
  const std::uint64_t pair = pair_key(merge.left, merge.right);
  const std::size_t mask = pairs_.size() - 1;
  std::size_t at = hash_of(pair) & mask;
  while (pairs_[at].pair != kEmptyPair && pairs_[at].pair != pair) at = (at + 1) & mask;
  pairs_[at] = {pair, rank};
}

std::uint32_t Bpe::rank_of(TokenId left, TokenId right) const {
  const std::uint64_t pair = pair_key(left, right);
  const std::size_t mask = pairs_.size() - 1;
  std::size_t at = hash_of(pair) & mask;
  while (pairs_[at].pair != pair) {
    if (pairs_[at].pair == kEmptyPair) return kNoRank;
    at = (at + 1) & mask;
  }
  return pairs_[at].rank;
}

bool Bpe::makes_itself(TokenId id, std::vector<TokenId>& scratch) const {
  scratch.clear();
  const std::string& bytes = vocab_[static_cast<std::size_t>(id)];
  bytes.size() <= kShort_bytes ? merge_short(bytes, scratch) : merge_long(bytes, scratch);
  return scratch.size() == 1 && scratch[0] == id;
}

void Bpe::add_word(TokenId id) {
  const std::size_t mask = words_.size() - 1;
  const std::size_t hash = hash_of(vocab_[static_cast<std::size_t>(id)]);
  std::size_t at = hash & mask;
  while (words_[at].id >= 0) at = (at + 1) & mask;
  words_[at] = {static_cast<std::uint32_t>(hash >> 32), id};
}

TokenId Bpe::find_word(std::string_view piece) const {
  const std::size_t mask = words_.size() - 1;
  const std::size_t hash = hash_of(piece);
  const auto tag = static_cast<std::uint32_t>(hash >> 32);
  for (std::size_t at = hash & mask; words_[at].id >= 0; at = (at + 1) & mask) {
    if (words_[at].hash == tag && vocab_[static_cast<std::size_t>(words_[at].id)] == piece) return words_[at].id;
  }
  return -1;
}

void Bpe::encode(std::string_view piece, std::vector<TokenId>& ids) const {
  if (piece.empty()) return;
  const TokenId whole = find_word(piece);
  if (whole >= 0) ids.push_back(whole);
  else if (piece.size() <= kShort_bytes) merge_short(piece, ids);
  else merge_long(piece, ids);
}

TokenId Bpe::find_character(std::string_view character) const {
  const auto found = characters_.find(packed(character));
  return found == characters_.end() ? -1 : found->second;
}

std::int64_t Bpe::unencodable_bytes(std::string_view text) const {
  if (!by_character_)
    return std::ranges::count_if(text, [&](char c) { return !has_byte_[static_cast<unsigned char>(c)]; });
  std::int64_t count = 0;
  for (std::size_t length = 1; !has_all_bytes() && !text.empty(); text.remove_prefix(length)) {
    length = std::max<std::size_t>(1, base::character_bytes(text));
    if (find_character(text.substr(0, length)) < 0) count += static_cast<std::int64_t>(length);
  }
  return count;
}

std::size_t Bpe::put_symbols(std::string_view piece, std::span<TokenId> tokens) const {
  std::size_t size = 0;
  bool after_unknown = false;
  for (std::size_t length = 1; !piece.empty(); piece.remove_prefix(length)) {
    length = by_character_ ? std::max<std::size_t>(1, base::character_bytes(piece)) : 1;
    const TokenId whole = by_character_ ? find_character(piece.substr(0, length)) : -1;
    const bool is_unknown = whole < 0 && !has_byte_[static_cast<unsigned char>(piece.front())];
    const bool is_left_out = is_unknown && (unknown_.id < 0 || (unknown_.fuse_repeats && after_unknown));
    after_unknown = is_unknown;
    if (is_left_out) continue;
    if (whole >= 0 || is_unknown) {
      tokens[size++] = is_unknown ? unknown_.id : whole;
    } else {
      for (const char byte : piece.substr(0, length)) tokens[size++] = byte_ids_[static_cast<unsigned char>(byte)];
    }
  }
  return size;
}

void Bpe::merge_short(std::string_view piece, std::vector<TokenId>& ids) const {
  std::array<TokenId, kShort_bytes + 2> token;
  std::array<std::uint32_t, kShort_bytes + 2> rank;  // rank[i]: rank of the pair (token i, token i + 1)
  std::size_t size = put_symbols(piece, token);
  for (std::size_t i = 0; i + 1 < size; ++i) rank[i] = rank_of(token[i], token[i + 1]);
  while (size > 1) {
    const auto end = rank.begin() + static_cast<std::ptrdiff_t>(size) - 1;
    const auto best = std::min_element(rank.begin(), end);
    if (*best == kNoRank) break;
    const auto i = static_cast<std::size_t>(best - rank.begin());
    token[i] = merged_[*best];
    std::copy(&token[i + 2], &token[size], &token[i + 1]);
    std::copy(&rank[i + 1], &rank[size - 1], &rank[i]);
    --size;
    if (i + 1 < size) rank[i] = rank_of(token[i], token[i + 1]);
    if (i > 0) rank[i - 1] = rank_of(token[i - 1], token[i]);
  }
  ids.insert(ids.end(), token.begin(), token.begin() + static_cast<std::ptrdiff_t>(size));
}

void Bpe::merge_long(std::string_view piece, std::vector<TokenId>& ids) const {
  constexpr auto kNone = static_cast<std::size_t>(-1);
  struct Symbol {
    TokenId token;
    std::size_t before, after;
  };
  struct Candidate {
    std::uint32_t rank;
    std::size_t at;
    bool operator>(const Candidate& other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
  };
  std::vector<TokenId> tokens(piece.size());
  tokens.resize(put_symbols(piece, tokens));
  if (tokens.empty()) return;
  std::vector<Symbol> symbols(tokens.size());
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto consider = [&](std::size_t at) {
    if (at == kNone || symbols[at].after == kNone) return;
    const std::uint32_t rank = rank_of(symbols[at].token, symbols[symbols[at].after].token);
    if (rank != kNoRank) queue.push({rank, at});
  };
  for (std::size_t i = 0; i < tokens.size(); ++i)
    symbols[i] = {tokens[i], i == 0 ? kNone : i - 1, i + 1 == tokens.size() ? kNone : i + 1};
  for (std::size_t i = 0; i < tokens.size(); ++i) consider(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbols[best.at];
    // Skips an outdated pair: its left token was merged into another (−1), or one of its tokens has grown.
    if (left.token < 0 || left.after == kNone || rank_of(left.token, symbols[left.after].token) != best.rank) continue;
    Symbol& right = symbols[left.after];
    left.token = merged_[best.rank];
    right.token = -1;
    left.after = right.after;
    if (left.after != kNone) symbols[left.after].before = best.at;
    consider(left.before);
    consider(best.at);
  }
  for (std::size_t i = 0; i != kNone; i = symbols[i].after) ids.push_back(symbols[i].token);
}

}  // namespace qrl::data
