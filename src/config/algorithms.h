// Owns what each algorithm and each correction is by default, and which of them have a meaning together. Knows no
// tensor: the formulas are the learner's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/recipe.h"

namespace qrl::config {

/// What null stands for in algorithm.* (algorithms.md, "Losses").
struct AlgorithmFacts {
  AlgorithmName name;
  const char* word;
  bool token_ratios;                                      ///< the clipped ratio is a token's; else a sequence's
  std::optional<double> clip_ratio_low, clip_ratio_high;  ///< none: the algorithm has keys of its own
  double clip_ratio_c;
  LossAggMode loss_agg_mode;
  bool norm_adv_by_std;
};
const AlgorithmFacts& facts_of(AlgorithmName name);

/// At what level a correction weighs: each token by its own ratio, or all tokens of a sequence alike.
enum class CorrectionLevel : std::uint8_t { none, token, sequence };

struct CorrectionFacts {
  CorrectionMethod method;
  const char* word;
  CorrectionLevel level;
  std::optional<double> threshold, threshold_low;  ///< defaults; none: the method has no such key
};
const CorrectionFacts& facts_of(CorrectionMethod method);

/// Why these settings have no meaning together, and what to do; nothing when they have one. `key` is the one to change.
struct Objection {
  std::string key, expected, got, advice;
};
std::optional<Objection> objection_to(const AlgorithmRecipe& algorithm, const CorrectionRecipe& correction);

}  // namespace qrl::config
