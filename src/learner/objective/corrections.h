// Owns what every correction is: weights for the gap between sampler and learner as a pure function, and the word that
// selects it. Each correction has a file of its own with its paper's equation. All weights are detached.
#pragma once

#include <cstdint>
#include <span>

#include "learner/learner.h"
#include "learner/objective/policy_losses.h"
#include "learner/objective/tokens.h"
#include "learner/torch.h"

namespace qrl::learner {

/// Holds a method's settings, all defaults filled in.
struct CorrectionSettings {
  double threshold = 0, threshold_low = 0;
  bool drop = false;  ///< a sequence outside its band gets weight 0 instead of the band's bound
  bool acr = false;   ///< QuRL's adaptive clipping range: raise the upper clip bound by truncation_factor
  double blend = 0;   ///< what LossOptions::blend says: a number of the whole mini-batch
};

/// Weights on the tokens' surrogates, [M]. A token that is rejected has weight 0 and stays in the denominators (our
/// choice).
struct CorrectionWeights {
  torch::Tensor on_tokens;
  torch::Tensor acted;       ///< bool [M]: capped, clipped or rejected
  torch::Tensor sequence_w;  ///< of a band on sequences: w_i before it, [S]; else undefined
  bool rejects = false;      ///< what acting means: weight 0
};

/// Selects whether a correction weighs each token by its own ratio, or all tokens of a sequence alike.
enum class CorrectionLevel : std::uint8_t { none, token, sequence };

/// Holds a correction: its name, its defaults, its function.
struct Correction : config::Choice {
  CorrectionLevel level = CorrectionLevel::none;
  /// `log_rho` [M]: log ρ_t = log π_old − log μ, clamped to ±20 and detached; ρ_t = exp(log ρ_t).
  CorrectionWeights (*weights)(const torch::Tensor& log_rho, const Sequences&, const CorrectionSettings&) = nullptr;
  /// Takes the correction's own keys into its settings; nullptr: it has none.
  void (*read_own)(const config::OwnValues&, CorrectionSettings&) = nullptr;
  AddStatistics add_statistics = nullptr;
  /// Sets LossOptions::blend from all response tokens of the mini-batch on all ranks (`batches`: this rank's, with old
  /// log-probs), and returns metrics of it. Collective. nullptr: the correction needs no whole mini-batch.
  Metrics (*prepare)(std::span<const types::MicroBatch* const> batches, LossOptions&, dist::Collectives&) = nullptr;
};

/// Returns the limits of every correction: behaviour_in_ratio. With `own_cap` (the sentence that names it) also
/// rollout_correction.threshold, and without a lower bound (`one_bound`) threshold_low.
std::vector<config::Limit> limits_of_correction(std::string_view own_cap, bool one_bound);

/// Computes the factor by which TIS truncates a token's weight: r_t = min(1, C/ρ_t) = μ/μ_trunc with μ_trunc = max(μ,
/// π_old/C) (QuRL, eq. 7). ACR multiplies the upper clip bound by 1/r_t (eq. 9).
torch::Tensor truncation_factor(const torch::Tensor& log_rho, double threshold);

}  // namespace qrl::learner
