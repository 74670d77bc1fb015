#include "learner/objective/corrections.h"

namespace qrl::learner {

CorrectionWeights mis_prod(const torch::Tensor& log_rho, const Sequences& sequences,
                           const CorrectionSettings& settings) {
  const torch::Tensor product_S = sequences.sum(log_rho).clamp(-kMaxLogRatio, kMaxLogRatio).exp();
  const torch::Tensor rejected_S = product_S > settings.threshold;
  return {sequences.on_tokens(product_S.masked_fill(rejected_S, 0)), sequences.on_tokens(rejected_S), {}, true};
}

CorrectionWeights mis_geo(const torch::Tensor& log_rho, const Sequences& sequences,
                          const CorrectionSettings& settings) {
  const torch::Tensor mean_S = sequences.mean(log_rho).exp();
  const torch::Tensor rejected_S = (mean_S < settings.threshold_low) | (mean_S > settings.threshold);
  return {sequences.on_tokens(torch::ones_like(mean_S).masked_fill(rejected_S, 0)),
          sequences.on_tokens(rejected_S),
          {},
          true};
}

CorrectionWeights trust_band_weights(const torch::Tensor& log_rho, const Sequences& sequences,
                                     const CorrectionSettings& settings) {
  const double cap = settings.threshold;
  const torch::Tensor w_S = sequences.mean(log_rho).exp();
  const torch::Tensor outside_S = (w_S < 1 / cap) | (w_S > cap);
  const torch::Tensor bounded_S = settings.drop ? w_S.masked_fill(outside_S, 0) : w_S.clamp(1 / cap, cap);
  return {sequences.on_tokens(bounded_S), sequences.on_tokens(outside_S), w_S, settings.drop};
}

}  // namespace qrl::learner
