#include "base/error.h"
#include "learner/objective/list.h"
#include "learner/objective/objective.h"

namespace qrl::learner {

namespace {

/// Clamps x to ±20. The gradient is 1 even where x is clamped, and 0 where x is not finite.
torch::Tensor clamped_value(const torch::Tensor& x) {
  const torch::Tensor now = x.detach();
  return now.clamp(-kMaxLogRatio, kMaxLogRatio) + torch::where(now.isfinite(), x - now, torch::zeros_like(now));
}

torch::Tensor estimate_k2(const KlLogRatios& ratios) { return ratios.to_reference * ratios.to_reference / 2; }

/// Computes min(k3, kMaxKl). Above kMaxKl, the gradient is still k3's, but not steeper than at kMaxKl.
torch::Tensor estimate_k3(const KlLogRatios& ratios) {
  constexpr double kRatioAtBound = 13.610868638149876;  // e^y, where y > 0 solves e^y − y − 1 = kMaxKl
  const torch::Tensor& x = ratios.to_reference;
  const torch::Tensor value = torch::exp(-x) + x - 1, now = x.detach();
  const torch::Tensor slope = (1 - torch::exp(-now)).clamp_min(1 - kRatioAtBound);
  return torch::where(value.detach() > kMaxKl, kMaxKl + slope * (x - now), value);
}

torch::Tensor estimate_k3_plus(const KlLogRatios& ratios) {
  const torch::Tensor k2 = estimate_k2(ratios);
  return estimate_k3(ratios).detach() + (k2 - k2.detach());
}

torch::Tensor estimate_unbiased(const KlLogRatios& ratios) {
  const torch::Tensor& x = ratios.to_reference;
  return ratios.to_sampler.exp() * (torch::exp(-x) + x - 1);
}

const KlEstimator kK1{{.word = "k1", .what = "x = log π_θ − log π_ref; refused: its gradient is 0 in expectation"}};
const KlEstimator kK2{{.word = "k2", .what = "x²/2, with the gradient of the KL"}, estimate_k2};
const KlEstimator kK3{{.word = "k3",
                       .what = "e^(−x) + x − 1, with the gradient of the reverse KL",
                       .paper = "Shao et al. 2024, DeepSeekMath, eq. 4"},
                      estimate_k3};
const KlEstimator kK3Plus{{.word = "k3+", .what = "the value of k3, the gradient of k2", .paper = "veRL"},
                          estimate_k3_plus};
const KlEstimator kUnbiased{
    {.word = "unbiased", .what = "π_θ/μ·k3, with the gradient of the KL", .paper = "DeepSeek-V3.2, eq. 7"},
    estimate_unbiased};

}  // namespace

config::Choices<KlEstimator> kl_estimators() { return {{&kK1, &kK2, &kK3, &kK3Plus, &kUnbiased}, "k3"}; }

torch::Tensor kl_penalty(const ObjectiveTokens& tokens, const KlEstimator& estimator) {
  QRL_INVARIANT(estimator.estimate != nullptr, "algorithm.kl_loss_type", "an estimator with a gradient",
                std::string(estimator.word));
  return estimator.estimate({clamped_value(tokens.log_probs - tokens.reference_log_probs),
                             clamped_value(tokens.log_probs - tokens.sampler_log_probs)});
}

}  // namespace qrl::learner
