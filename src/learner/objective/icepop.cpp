#include "learner/objective/corrections.h"

namespace qrl::learner {

namespace {

/// Weights a token by ρ_t if threshold_low ≤ ρ_t ≤ threshold, else by 0 (Ling team 2025, IcePop: bounds 0.5 and 5).
CorrectionWeights ratio_within_bounds(const torch::Tensor& log_rho, const Sequences&,
                                      const CorrectionSettings& settings) {
  const torch::Tensor rho = log_rho.exp();
  const torch::Tensor outside = (rho < settings.threshold_low) | (rho > settings.threshold);
  return {rho.masked_fill(outside, 0), outside, {}, true};
}

}  // namespace

extern const Correction icepop_correction;
const Correction icepop_correction{
    {.word = "icepop",
     .what = "a token's ratio within the thresholds, else 0",
     .paper = "Ling team 2025, IcePop",
     .defaults = {{"rollout_correction.threshold", "5"}, {"rollout_correction.threshold_low", "0.5"}},
     .constraints = constraints_of_correction("", false)},
    CorrectionLevel::token,
    ratio_within_bounds};

}  // namespace qrl::learner
