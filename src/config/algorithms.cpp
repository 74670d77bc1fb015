#include "config/algorithms.h"

#include <algorithm>
#include <array>

namespace qrl::config {

namespace {

using enum AlgorithmName;

constexpr std::array kAlgorithms = {
    AlgorithmFacts{grpo, "grpo", true, 0.2, 0.2, 0, LossAggMode::seq_mean_token_mean, true},
    AlgorithmFacts{dr_grpo, "dr_grpo", true, 0.2, 0.2, 0, LossAggMode::seq_mean_token_sum_norm, false},
    AlgorithmFacts{dapo, "dapo", true, 0.2, 0.28, 10, LossAggMode::token_mean, true},
    AlgorithmFacts{gspo, "gspo", false, 3e-4, 4e-4, 0, LossAggMode::seq_mean_token_mean, true},
    AlgorithmFacts{tbpo, "tbpo", false, std::nullopt, std::nullopt, 0, LossAggMode::seq_mean_token_mean, true},
};

constexpr std::array kCorrections = {
    CorrectionFacts{CorrectionMethod::none, "none", CorrectionLevel::none, std::nullopt, std::nullopt},
    CorrectionFacts{CorrectionMethod::tis, "tis", CorrectionLevel::token, 2.0, std::nullopt},
    CorrectionFacts{CorrectionMethod::icepop, "icepop", CorrectionLevel::token, 5.0, 0.5},
    CorrectionFacts{CorrectionMethod::mis_prod, "mis_prod", CorrectionLevel::sequence, 3.0, std::nullopt},
    CorrectionFacts{CorrectionMethod::mis_geo, "mis_geo", CorrectionLevel::sequence, 1.001, 0.999},
    CorrectionFacts{CorrectionMethod::tbpo, "tbpo", CorrectionLevel::sequence, std::nullopt, std::nullopt},
    CorrectionFacts{CorrectionMethod::ais, "ais", CorrectionLevel::token, std::nullopt, std::nullopt},
};

/// Each check says what is wrong with the settings, or nothing.
using Judged = std::optional<Objection>;

Judged unless(bool holds, Objection objection) { return holds ? std::nullopt : std::optional(std::move(objection)); }

Judged judge_pair(const AlgorithmRecipe& algorithm, const CorrectionRecipe& correction) {
  const AlgorithmFacts& loss = facts_of(algorithm.name);
  const std::string method = facts_of(correction.method).word;
  if (algorithm.name == tbpo && correction.method != CorrectionMethod::none &&
      correction.method != CorrectionMethod::tbpo) {
    return Objection{"rollout_correction.method", "tbpo or none with algorithm.name tbpo", method,
                     "its objective weighs whole sequences by the geometric mean of their ratios and no other way: set "
                     "tbpo, or take another loss"};
  }
  if (correction.acr && correction.method != CorrectionMethod::tis) {
    return Objection{"rollout_correction.acr", "rollout_correction.method tis with acr", method,
                     "it undoes what tis's truncation does to the clip range: set tis, or acr: false"};
  }
  if (correction.acr && !loss.token_ratios) {
    return Objection{"rollout_correction.acr", "grpo, dr_grpo or dapo with acr", loss.word,
                     "a token's truncation does not move the clip range of a sequence's ratio: set acr: false"};
  }
  if (correction.behaviour_in_ratio && correction.method != CorrectionMethod::none) {
    return Objection{"rollout_correction.behaviour_in_ratio", "rollout_correction.method none with behaviour_in_ratio",
                     method, "the gap would be counted twice, in the ratio and as a weight: keep one"};
  }
  return unless(!correction.behaviour_in_ratio || loss.token_ratios,
                {"rollout_correction.behaviour_in_ratio", "grpo, dr_grpo or dapo with behaviour_in_ratio", loss.word,
                 "it is the token ratio pi/mu inside the clip: set it to false"});
}

Judged judge_loss(const AlgorithmRecipe& algorithm) {
  const AlgorithmFacts& loss = facts_of(algorithm.name);
  const bool has_own_bands = !loss.clip_ratio_low;
  for (const auto& [key, is_set] :
       {std::pair<const char*, bool>{"clip_ratio_low", algorithm.clip_ratio_low.has_value()},
        {"clip_ratio_high", algorithm.clip_ratio_high.has_value()}}) {
    if (has_own_bands && is_set) {
      return Objection{std::string("algorithm.") + key, "no algorithm." + std::string(key) + " with tbpo", "one",
                       "its bands are algorithm.tbpo.seq_clip_ratio_… and neg_seq_clip_ratio_…"};
    }
  }
  if (algorithm.clip_ratio_c.value_or(0) != 0 && !loss.token_ratios) {
    return Objection{"algorithm.clip_ratio_c", std::string("no algorithm.clip_ratio_c with ") + loss.word, "one",
                     "the dual clip bounds a token's ratio: set it to 0"};
  }
  return unless(loss.token_ratios || algorithm.loss_agg_mode.value_or(loss.loss_agg_mode) == loss.loss_agg_mode,
                {"algorithm.loss_agg_mode", std::string("seq-mean-token-mean with ") + loss.word, "another",
                 "its surrogate belongs to the sequence and its mean goes over sequences: set it to null"});
}

/// Keys that only one method reads: their defaults stand in every printed recipe, so only other values are refused.
Judged judge_options(const AlgorithmRecipe& algorithm, const CorrectionRecipe& correction) {
  const TbpoRecipe usual;
  TbpoRecipe with_usual_bands = algorithm.tbpo, with_usual_weights = algorithm.tbpo;
  with_usual_bands.seq_clip_ratio_low = usual.seq_clip_ratio_low;
  with_usual_bands.seq_clip_ratio_high = usual.seq_clip_ratio_high;
  with_usual_bands.neg_seq_clip_ratio_low = usual.neg_seq_clip_ratio_low;
  with_usual_bands.neg_seq_clip_ratio_high = usual.neg_seq_clip_ratio_high;
  with_usual_weights.seq_tis_imp_ratio_cap = usual.seq_tis_imp_ratio_cap;
  with_usual_weights.mismatch_action = usual.mismatch_action;
  if (algorithm.name != tbpo && algorithm.tbpo != with_usual_bands) {
    return Objection{"algorithm.tbpo.seq_clip_ratio_low", "algorithm.name tbpo beside algorithm.tbpo's clip ratios",
                     facts_of(algorithm.name).word, "they have no effect: delete them"};
  }
  if (correction.method != CorrectionMethod::tbpo && algorithm.tbpo != with_usual_weights) {
    return Objection{"algorithm.tbpo.seq_tis_imp_ratio_cap",
                     "rollout_correction.method tbpo beside algorithm.tbpo's cap and mismatch_action",
                     facts_of(correction.method).word, "they have no effect: delete them"};
  }
  return unless(correction.method == CorrectionMethod::ais || correction.ais == AisRecipe{},
                {"rollout_correction.ais.C", "rollout_correction.method ais beside rollout_correction.ais",
                 facts_of(correction.method).word, "it has no effect: delete it"});
}

Judged judge_thresholds(const CorrectionRecipe& correction) {
  const CorrectionFacts& facts = facts_of(correction.method);
  const std::string word = facts.word;
  const std::string instead =
      correction.method == CorrectionMethod::tbpo  ? "its cap is algorithm.tbpo.seq_tis_imp_ratio_cap"
      : correction.method == CorrectionMethod::ais ? "its cap is rollout_correction.ais.C"
                                                   : "it has no effect: set it to null or delete it";
  if (correction.threshold && !facts.threshold) {
    return Objection{"rollout_correction.threshold", "no rollout_correction.threshold with method " + word, "one",
                     instead};
  }
  if (correction.threshold_low && !facts.threshold_low) {
    return Objection{"rollout_correction.threshold_low", "no rollout_correction.threshold_low with method " + word,
                     "one", "only icepop and mis_geo have a lower bound: set it to null or delete it"};
  }
  const double high = correction.threshold.value_or(facts.threshold.value_or(0));
  return unless(!facts.threshold_low || correction.threshold_low.value_or(*facts.threshold_low) < high,
                {"rollout_correction.threshold_low", "rollout_correction.threshold_low below threshold", "it or more",
                 "every weight would be 0"});
}

}  // namespace

const AlgorithmFacts& facts_of(AlgorithmName name) {
  return *std::find_if(kAlgorithms.begin(), kAlgorithms.end(), [&](const auto& facts) { return facts.name == name; });
}

const CorrectionFacts& facts_of(CorrectionMethod method) {
  return *std::find_if(kCorrections.begin(), kCorrections.end(),
                       [&](const auto& facts) { return facts.method == method; });
}

std::optional<Objection> objection_to(const AlgorithmRecipe& algorithm, const CorrectionRecipe& correction) {
  for (const auto& judged : {judge_pair(algorithm, correction), judge_loss(algorithm),
                             judge_options(algorithm, correction), judge_thresholds(correction)}) {
    if (judged) return judged;
  }
  return std::nullopt;
}

}  // namespace qrl::config
