#include "learner/corrections.h"

#include "learner/losses.h"

namespace qrl::learner {

double tis_threshold(const config::CorrectionRecipe& correction) {
  return correction.threshold.value_or(kDefaultTisThreshold);
}

torch::Tensor correction_weights(const torch::Tensor& old_log_probs, const torch::Tensor& sampler_log_probs,
                                 const config::CorrectionRecipe& correction) {
  const torch::Tensor rho = probability_ratio(old_log_probs, sampler_log_probs).detach();
  switch (correction.method) {
    case config::CorrectionMethod::none:
      return torch::ones_like(rho);
    case config::CorrectionMethod::tis:
      break;
  }
  return rho.clamp_max(tis_threshold(correction));
}

}  // namespace qrl::learner
