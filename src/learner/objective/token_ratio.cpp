#include "learner/objective/clip.h"
#include "learner/objective/policy_losses.h"

namespace qrl::learner {

Surrogate token_ratio_surrogate(const SurrogateInput& input, const SurrogateSettings& settings) {
  const torch::Tensor& advantages = input.tokens.advantages;
  const torch::Tensor ratio = input.log_ratio.exp(), now = ratio.detach();
  torch::Tensor high = torch::full_like(now, 1 + settings.clip.high);
  if (input.upper_relief.defined()) high = high * input.upper_relief;
  const torch::Tensor low = torch::full_like(now, 1 - settings.clip.low);
  Surrogate surrogate{clipped_objective(ratio, advantages, low, high), clip_sides(now, advantages, low, high), now};
  if (settings.dual_clip) {
    const double c = *settings.dual_clip;
    const torch::Tensor acts = (advantages < 0) & (now > c);
    surrogate.objective = torch::where(acts, c * advantages, surrogate.objective);
    surrogate.side.masked_fill_(acts, static_cast<int>(ClipSide::dual));
  }
  return surrogate;
}

}  // namespace qrl::learner
