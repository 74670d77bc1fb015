#include "data/tokenizer/gguf_scores.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/text.h"
#include "data/tokenizer/gguf_split.h"

namespace qrl::data {

namespace {

using Ids = std::unordered_map<std::string_view, std::size_t>;

/// Calls visit(left, right) for each cut of a token between two of its characters.
template <class Visit>
void visit_cuts(std::string_view token, const Visit& visit) {
  const auto step = [&](std::size_t at) {
    return at + std::max<std::size_t>(1, base::character_bytes(token.substr(at)));
  };
  for (std::size_t cut = step(0); cut < token.size(); cut = step(cut)) visit(token.substr(0, cut), token.substr(cut));
}

/// Returns the ids of normal tokens; of tokens with one text, the first.
Ids normal_ids(const SpacedTokens& tokens) {
  Ids ids;
  for (std::size_t i = 0; i < tokens.texts.size(); ++i)
    if (tokens.kinds[i] == kNormalToken) ids.emplace(tokens.texts[i], i);
  return ids;
}

struct ScoredMerge {
  std::string_view left, right;
  double score;
};

std::string spelled(std::string_view left, std::string_view right) {
  return base::quoted(left) + " and " + base::quoted(right);
}

}  // namespace

std::vector<TokenPair> merges_of_scores(const SpacedTokens& tokens, std::span<const double> scores) {
  const Ids known = normal_ids(tokens);
  std::vector<ScoredMerge> merges;
  for (std::size_t i = 0; i < tokens.texts.size(); ++i) {
    if (tokens.kinds[i] != kNormalToken) continue;
    const auto first = static_cast<std::ptrdiff_t>(merges.size());
    visit_cuts(tokens.texts[i], [&](std::string_view left, std::string_view right) {
      if (known.contains(left) && known.contains(right)) merges.push_back({left, right, scores[i]});
    });
    const auto of_parts = [&](const ScoredMerge& merge) {
      return std::pair(scores[known.at(merge.left)], scores[known.at(merge.right)]);
    };
    std::stable_sort(merges.begin() + first, merges.end(),
                     [&](const ScoredMerge& a, const ScoredMerge& b) { return of_parts(a) > of_parts(b); });
  }
  std::ranges::stable_sort(merges, std::greater<>(), &ScoredMerge::score);
  std::vector<TokenPair> pairs;
  for (const ScoredMerge& merge : merges) pairs.emplace_back(merge.left, merge.right);
  return pairs;
}

MergeScores scores_of_merges(const SpacedTokens& tokens, std::span<const TokenPair> merges) {
  const Ids known = normal_ids(tokens);
  constexpr auto kNone = static_cast<std::size_t>(-1);
  const auto id_of = [&](std::string_view text) {
    const auto found = known.find(text);
    return found == known.end() ? kNone : found->second;
  };
  MergeScores result{std::vector<float>(tokens.texts.size()), {}};
  const auto fail = [&](std::string fault) {
    result.fault = std::move(fault);
    return result;
  };
  std::unordered_set<std::string_view> found_before;  // text is searched for these first: none of them stands alone
  for (std::size_t i = 0; i < tokens.texts.size(); ++i)
    if (tokens.kinds[i] == kUserToken) found_before.insert(tokens.texts[i]);
  std::unordered_set<std::uint64_t> listed;  // pairs of ids
  const auto pair_key = [](std::size_t left, std::size_t right) { return std::uint64_t{left} << 32U | right; };
  std::vector<bool> is_merged(tokens.texts.size());
  float next = 0;
  std::size_t last = kNone;
  for (const auto& [left, right] : merges) {
    const std::size_t id = id_of(left + right), left_id = id_of(left), right_id = id_of(right);
    if (id == kNone || left_id == kNone || right_id == kNone) continue;
    if (id != last && is_merged[id])
      return fail("a merge of " + spelled(left, right) + ", apart from other merges into this token");
    if (id != last) result.scores[id] = next--;
    is_merged[id] = true;
    last = id;
    listed.insert(pair_key(left_id, right_id));
  }
  for (std::size_t id = 0; id < tokens.texts.size(); ++id) {
    if (tokens.kinds[id] != kNormalToken) continue;
    if (!is_merged[id]) result.scores[id] = next--;
    visit_cuts(tokens.texts[id], [&](std::string_view left, std::string_view right) {
      const std::size_t left_id = id_of(left), right_id = id_of(right);
      const auto may_stand = [&](std::string_view part, std::size_t part_id) {
        return part_id != kNone || (base::character_bytes(part) == part.size() && !found_before.contains(part));
      };
      if (!may_stand(left, left_id) || !may_stand(right, right_id)) return;
      if (left_id == kNone || right_id == kNone || !listed.contains(pair_key(left_id, right_id)))
        result.fault = "no merge of " + spelled(left, right);
    });
    if (!result.fault.empty()) return result;
  }
  return result;
}

}  // namespace qrl::data
