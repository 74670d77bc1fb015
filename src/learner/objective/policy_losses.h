// Declares the policy losses, selected by algorithm.name.
#pragma once

#include <cstdint>
#include <optional>

#include "config/option.h"
#include "learner/objective/tokens.h"
#include "learner/tensors/torch.h"

namespace qrl::learner {

/// Names the clip bound that stops a token's gradient: the ratio is beyond the bound that the advantage's sign selects.
enum class ClipSide : std::uint8_t { none, high, low, negative_high, dual };

/// Holds each token's objective J, [M], to be maximized. With sequence ratios, a sequence's tokens have equal J.
struct Surrogate {
  torch::Tensor objective;
  torch::Tensor side;   ///< ClipSide as uint8
  torch::Tensor ratio;  ///< detached, before clipping
};

struct ClipRange {
  double low = 0.2, high = 0.2;  ///< ratios are clipped to [1 − low, 1 + high]
};

struct SurrogateSettings {
  ClipRange clip;
  ClipRange negative_clip;                       ///< tbpo's range where A < 0
  std::optional<double> dual_clip;               ///< c; none: off
  bool token_form = false;                       ///< whether sequence_ratio gives s_it instead of s_i
  double tau_positive = 1, tau_negative = 1.05;  ///< temperatures of sapo's gate
  double divergence = 0, ratio_cap = 0;          ///< δ and c of dppo_tv and dppo_kl
  bool moved_only = false;  ///< whether a bound around μ binds only tokens that updates moved (SurrogateInput::moved)
};

struct SurrogateInput {
  const ObjectiveTokens& tokens;
  torch::Tensor anchor;        ///< log-probs [M] of the ratio's denominator: π_old or μ
  torch::Tensor log_ratio;     ///< log R_t = log π_θ − anchor, [M], clamped to ±20
  torch::Tensor upper_relief;  ///< [M] or undefined: detached factor on 1 + ε_h (ACR's 1/r_t)
  /// bool [M]: tokens whose π_θ is further in the advantage's direction than π_old; undefined: all tokens are bound.
  torch::Tensor moved;
};

struct ObjectiveSettings;
struct Objective;
class Statistics;
using AddStatistics = void (*)(const ObjectiveTokens&, const ObjectiveSettings&, const Objective&, Statistics&);

struct PolicyLoss : config::Option {
  Surrogate (*surrogate)(const SurrogateInput&, const SurrogateSettings&) = nullptr;
  /// Null if the loss declares no keys.
  void (*read_own)(const config::ParamValues&, SurrogateSettings&) = nullptr;
  AddStatistics add_statistics = nullptr;
};

/// Computes the surrogate that grpo, dr_grpo and dapo share.
Surrogate token_ratio_surrogate(const SurrogateInput& input, const SurrogateSettings& settings);

/// Returns the constraints of losses without a clipped token ratio: keys that act on such a clip must be off.
std::vector<config::Constraint> constraints_of_weighted_log_probs();

/// Computes min(R·A, clip(R, low, high)·A). Arguments have one shape. At a bound, the gradient is the same as inside
/// the bounds.
inline torch::Tensor clipped_objective(const torch::Tensor& ratio, const torch::Tensor& advantages,
                                       const torch::Tensor& low, const torch::Tensor& high) {
  return torch::minimum(ratio * advantages, ratio.clamp(low, high) * advantages);
}

/// Returns the bound that stops each gradient: ClipSide as uint8, in the ratio's shape.
inline torch::Tensor clip_sides(const torch::Tensor& ratio, const torch::Tensor& advantages, const torch::Tensor& low,
                                const torch::Tensor& high) {
  torch::Tensor side = torch::zeros(ratio.sizes(), torch::kUInt8);
  side.masked_fill_((advantages > 0) & (ratio > high), static_cast<int>(ClipSide::high));
  side.masked_fill_((advantages < 0) & (ratio < low), static_cast<int>(ClipSide::low));
  return side;
}

/// Computes s_i = exp(mean_t log R_t) on each token, [M]. With `token_form`, log s_it = log R_t − sg(log R_t) + sg(log
/// s_i): equal values, with the gradient of a token's own log-ratio.
torch::Tensor sequence_ratio(const SurrogateInput& input, bool token_form);

/// Returns the constraints of losses with sequence ratios: keys that act on a token's ratio must be off.
std::vector<config::Constraint> constraints_of_sequence_ratios();

}  // namespace qrl::learner
