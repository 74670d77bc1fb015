#include "learner/objective/clip.h"
#include "learner/objective/policy_losses.h"

namespace qrl::learner {

namespace {

/// s_i on each token: one per sequence, or with the gradient of a token's own log-ratio.
torch::Tensor sequence_ratio(const SurrogateInput& input, bool token_form) {
  const Sequences& sequences = input.tokens.sequences;
  if (!token_form) return sequences.on_tokens(sequences.mean(input.log_ratio)).exp();
  const torch::Tensor now = input.log_ratio.detach();
  return (input.log_ratio - now + sequences.on_tokens(sequences.mean(now))).exp();
}

}  // namespace

Surrogate sequence_ratio_surrogate(const SurrogateInput& input, const SurrogateSettings& settings) {
  const torch::Tensor& advantages = input.tokens.advantages;
  const torch::Tensor ratio = sequence_ratio(input, settings.token_form), now = ratio.detach();
  const torch::Tensor low = torch::full_like(now, 1 - settings.clip.low);
  const torch::Tensor high = torch::full_like(now, 1 + settings.clip.high);
  return {clipped_objective(ratio, advantages, low, high), clip_sides(now, advantages, low, high), now};
}

Surrogate trust_band_surrogate(const SurrogateInput& input, const SurrogateSettings& settings) {
  const torch::Tensor& advantages = input.tokens.advantages;
  const torch::Tensor ratio = sequence_ratio(input, false), now = ratio.detach();
  const torch::Tensor is_negative = advantages < 0;
  const auto bound = [&](double positive, double negative) {
    return torch::where(is_negative, torch::full_like(now, negative), torch::full_like(now, positive));
  };
  const torch::Tensor low = bound(1 - settings.clip.low, 1 - settings.negative_clip.low);
  const torch::Tensor high = bound(1 + settings.clip.high, 1 + settings.negative_clip.high);
  Surrogate surrogate;
  surrogate.objective =
      torch::where(is_negative, ratio.clamp(low, high) * advantages, clipped_objective(ratio, advantages, low, high));
  surrogate.side = clip_sides(now, advantages, low, high);
  surrogate.side.masked_fill_(is_negative & (now > high), static_cast<int>(ClipSide::negative_high));
  surrogate.ratio = now;
  return surrogate;
}

}  // namespace qrl::learner
