#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace qrl::data {

using TokenPair = std::pair<std::string, std::string>;

/// Holds the tokens of SentencePiece's BPE by id, with their kinds in a GGUF file.
struct SpacedTokens {
  std::vector<std::string> texts;
  std::vector<std::int32_t> kinds;
};

/// Returns the merges that scores of tokens represent: each cut of a normal token into two others, tokens of high score
/// first, then cuts into tokens of high score. transformers makes the same list of such a file.
std::vector<TokenPair> merges_of_scores(const SpacedTokens& tokens, std::span<const double> scores);

struct MergeScores {
  std::vector<float> scores;  ///< 0 for tokens that are not normal
  std::string fault;          ///< a merge that scores cannot express; empty: none
};

/// Returns scores with which llama.cpp merges the same pairs in the same order. It merges any two neighbors whose
/// joined text is a token, the token of the highest score first. So each cut of a token must be among the merges, and
/// the merges into one token must follow each other. Merges that touch other kinds of tokens are ignored.
MergeScores scores_of_merges(const SpacedTokens& tokens, std::span<const TokenPair> merges);

}  // namespace qrl::data
