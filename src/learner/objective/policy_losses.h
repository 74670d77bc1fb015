// Owns what every policy loss is: a clipped surrogate as a pure function of the counted tokens, and the word that
// selects it. Each loss has a file of its own with its paper's equation. Knows no aggregation and no model.
#pragma once

#include <cstdint>
#include <optional>

#include "config/recipe.h"
#include "learner/objective/tokens.h"
#include "learner/torch.h"

namespace qrl::learner {

/// Tells why a token's ratio has no gradient: the bound, if any, that its advantage's sign makes active and that it
/// exceeds.
enum class ClipSide : std::uint8_t { none, high, low, negative_high, dual };

/// Holds J of each token, [M], to be maximized. A sequence's surrogate is repeated on each of its tokens.
struct Surrogate {
  torch::Tensor objective;
  torch::Tensor side;   ///< uint8, ClipSide
  torch::Tensor ratio;  ///< detached: what was clipped
};

struct ClipRange {
  double low = 0.2, high = 0.2;  ///< ratios within [1 − low, 1 + high]
};

struct SurrogateSettings {
  ClipRange clip;
  ClipRange negative_clip;                       ///< of a loss with a band of its own where A < 0
  std::optional<double> dual_clip;               ///< c
  bool token_form = false;                       ///< of a loss by sequences: s_it instead of s_i
  double tau_positive = 1, tau_negative = 1.05;  ///< of a soft gate
  double divergence = 0, ratio_cap = 0;          ///< dppo_…: δ and c
};

struct SurrogateInput {
  const ObjectiveTokens& tokens;
  torch::Tensor anchor;        ///< log-probs [M] of the policy that R is relative to: π_old, or μ
  torch::Tensor log_ratio;     ///< log R_t = log π_θ − anchor, [M], clamped to ±20
  torch::Tensor upper_relief;  ///< [M] or undefined: a detached factor on 1 + ε_h (ACR's 1/r_t)
};

struct ObjectiveSettings;
struct Objective;
class Statistics;
/// Adds the metrics that only one loss or correction has.
using AddStatistics = void (*)(const ObjectiveTokens&, const ObjectiveSettings&, const Objective&, Statistics&);

/// Holds a loss: its name, its defaults, its function.
struct PolicyLoss : config::Choice {
  Surrogate (*surrogate)(const SurrogateInput&, const SurrogateSettings&) = nullptr;
  /// Takes the loss's own keys into its settings; nullptr: it has none.
  void (*read_own)(const config::OwnValues&, SurrogateSettings&) = nullptr;
  AddStatistics add_statistics = nullptr;
  bool around_sampler = false;  ///< its ratio and its bound are relative to μ, not to π_old
};

/// Computes the surrogate of tokens' ratios, shared by losses that differ only in aggregation and settings.
Surrogate token_ratio_surrogate(const SurrogateInput& input, const SurrogateSettings& settings);

}  // namespace qrl::learner
