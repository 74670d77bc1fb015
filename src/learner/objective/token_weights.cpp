#include "learner/objective/corrections.h"

namespace qrl::learner {

CorrectionWeights no_correction(const torch::Tensor& log_rho, const Sequences&, const CorrectionSettings&) {
  return {torch::ones_like(log_rho), torch::zeros_like(log_rho, torch::kBool), {}, false};
}

CorrectionWeights truncated_importance(const torch::Tensor& log_rho, const Sequences&,
                                       const CorrectionSettings& settings) {
  const torch::Tensor rho = log_rho.exp();
  return {rho.clamp_max(settings.threshold), rho > settings.threshold, {}, false};
}

CorrectionWeights icepop(const torch::Tensor& log_rho, const Sequences&, const CorrectionSettings& settings) {
  const torch::Tensor rho = log_rho.exp();
  const torch::Tensor outside = (rho < settings.threshold_low) | (rho > settings.threshold);
  return {rho.masked_fill(outside, 0), outside, {}, true};
}

CorrectionWeights adaptive_importance(const torch::Tensor& log_rho, const Sequences&,
                                      const CorrectionSettings& settings) {
  const torch::Tensor rho = log_rho.exp();
  return {1 + settings.ais_alpha * (rho.clamp_max(settings.threshold) - 1), rho > settings.threshold, {}, false};
}

torch::Tensor truncation_factor(const torch::Tensor& log_rho, double threshold) {
  return (threshold * (-log_rho).exp()).clamp_max(1);
}

}  // namespace qrl::learner
