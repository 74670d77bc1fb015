#include "learner/objective/corrections.h"

namespace qrl::learner {

namespace {

/// Weights a token by 1 where threshold_low ≤ exp(mean_t log ρ_t) ≤ threshold, else by 0 (veRL's geometric preset:
/// bounds 0.999 and 1.001).
CorrectionWeights masked_mean(const torch::Tensor& log_rho, const Sequences& sequences,
                              const CorrectionSettings& settings) {
  const torch::Tensor mean_S = sequences.mean(log_rho).exp();
  const torch::Tensor rejected_S = (mean_S < settings.threshold_low) | (mean_S > settings.threshold);
  return {sequences.on_tokens(torch::ones_like(mean_S).masked_fill(rejected_S, 0)),
          sequences.on_tokens(rejected_S),
          {},
          true};
}

}  // namespace

extern const Correction mis_geo_correction;
const Correction mis_geo_correction{
    {.word = "mis_geo",
     .what = "1 where the geometric mean of a sequence's ratios is within the thresholds, else 0",
     .paper = "",
     .defaults = {{"rollout_correction.threshold", "1.001"}, {"rollout_correction.threshold_low", "0.999"}},
     .constraints = constraints_of_correction("", false)},
    CorrectionLevel::sequence,
    masked_mean};

namespace {

/// Weights each token of a sequence by Π ρ_t if this product is at most `threshold`, otherwise by 0 (masked importance
/// sampling; TRL's threshold is 3). Clamps log Π ρ_t to ±20.
CorrectionWeights masked_product(const torch::Tensor& log_rho, const Sequences& sequences,
                                 const CorrectionSettings& settings) {
  const torch::Tensor product_S = sequences.sum(log_rho).clamp(-kMaxLogRatio, kMaxLogRatio).exp();
  const torch::Tensor rejected_S = product_S > settings.threshold;
  return {sequences.on_tokens(product_S.masked_fill(rejected_S, 0)), sequences.on_tokens(rejected_S), {}, true};
}

}  // namespace

extern const Correction mis_prod_correction;
const Correction mis_prod_correction{
    {.word = "mis_prod",
     .what = "the product of a sequence's ratios where it is at most the threshold, else 0",
     .paper = "",
     .defaults = {{"rollout_correction.threshold", "3"}},
     .constraints = constraints_of_correction("", true)},
    CorrectionLevel::sequence,
    masked_product};

}  // namespace qrl::learner
